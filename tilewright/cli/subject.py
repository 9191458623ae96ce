"""Options that the commands on a real model share, and the subject they describe."""

import argparse
from pathlib import Path
from typing import TYPE_CHECKING

from tilewright.base.console import remark

if TYPE_CHECKING:
    from tilewright.studies.accuracy.anda import LengthTrial
    from tilewright.studies.accuracy.subject import Subject

__all__ = ["add_subject_arguments", "open_from", "save_recipe", "update_records"]

TOKENS, WINDOW = 2048, 1024  # minutes on two cores


def add_subject_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the options that say which model is measured, on which text and how."""
    parser.add_argument(
        "model",
        metavar="MODEL",
        help="smollm2, gemma-3-270m, a GGUF file, or a Hugging Face folder",
    )
    parser.add_argument(
        "--text", type=Path, metavar="FILE", help="prose to measure on [the Python reference]"
    )
    parser.add_argument(
        "--tokens",
        type=int,
        default=TOKENS,
        metavar="N",
        help=f"tokens of the text for calibration, and as many more for validation [{TOKENS}]",
    )
    parser.add_argument(
        "--window", type=int, default=WINDOW, metavar="W", help=f"tokens of a sequence [{WINDOW}]"
    )
    parser.add_argument(
        "--weights",
        default="search",
        help="INT4 with scales searched, INT4 rounded to nearest, or as in the file: search,"
        " nearest, file [search]",
    )
    parser.add_argument(
        "--engine", default="auto", help="numpy or torch [torch where it is installed]"
    )
    parser.add_argument(
        "--device",
        metavar="cpu|cuda",
        help="compute by Transformers, there; needs --weights nearest or --weights file",
    )
    parser.add_argument(
        "--log",
        type=Path,
        metavar="FILE",
        help="log every perplexity here, and go on from those it has",
    )
    parser.add_argument("--plot", type=Path, metavar="FILE", help="draw the result (SVG, PNG, PDF)")
    parser.add_argument(
        "--update-record", action="store_true", help="make the committed records again"
    )


def open_from(args: argparse.Namespace) -> "Subject":
    """Open the subject that the options describe."""
    # Imported here: `--help` needs none of it.
    names = ("text", "tokens", "window", "weights")
    options = {name: getattr(args, name) for name in names}
    if args.device is None:
        from tilewright.studies.accuracy.subject import open_subject

        subject = open_subject(args.model, engine=args.engine, **options)
    else:
        from tilewright.studies.accuracy.folder_subject import open_folder

        if args.update_record or args.engine != "auto":
            raise ValueError("--device goes with neither --engine nor --update-record")
        subject = open_folder(args.model, device=args.device, **options)
    subject.remember(args.log)
    return subject


def save_recipe(path: Path | None, subject: "Subject", best: "LengthTrial | None") -> None:
    """Write the lengths that were found as a recipe of ``tilewright.torch``, if a path is given."""
    if path is None:
        return
    if best is None:
        remark(f"tilewright: no lengths are within the tolerance, so {path} is not written")
    else:
        from tilewright.studies.accuracy.folder_subject import recipe_for

        recipe_for(subject, best.lengths).save(path)


def update_records(args: argparse.Namespace, subject: "Subject", command: str) -> None:
    """Make the records of ``command`` again, which will name this command line."""
    from tilewright.studies.accuracy.records import update_records

    words = f"tilewright {command} {args.model} --tokens {args.tokens} --window {args.window}"
    if args.weights == "file":
        words += " --weights file"
    update_records(subject, command, f"{words} --update-record", remark)
