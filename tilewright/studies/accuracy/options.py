"""Options that the commands on a real model share, and the subject they describe."""

import argparse
from pathlib import Path
from typing import TYPE_CHECKING

from tilewright.base.console import remark

if TYPE_CHECKING:
    from tilewright.studies.accuracy.subject import Subject

__all__ = ["add_subject_arguments", "open_from", "save_plot", "update_records"]

TOKENS, WINDOW = 2048, 1024  # minutes on two cores


def add_subject_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "model", metavar="MODEL", help="smollm2, a GGUF file, or a Hugging Face folder"
    )
    parser.add_argument(
        "--text", type=Path, metavar="FILE", help="prose to measure on [the Python reference]"
    )
    parser.add_argument(
        "--tokens",
        type=int,
        default=TOKENS,
        metavar="N",
        help=f"of the text, to decide on; as many more to judge by [{TOKENS}]",
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
        "--log",
        type=Path,
        metavar="FILE",
        help="keep every perplexity here, and go on from those it has",
    )
    parser.add_argument("--plot", type=Path, metavar="FILE", help="draw the result (SVG, PNG, PDF)")
    parser.add_argument(
        "--update-record", action="store_true", help="make the committed records again"
    )


def open_from(args: argparse.Namespace) -> "Subject":
    # Imported here: `--help` needs none of it.
    from tilewright.studies.accuracy.subject import open_subject

    subject = open_subject(
        args.model,
        text=args.text,
        tokens=args.tokens,
        window=args.window,
        weights=args.weights,
        engine=args.engine,
    )
    subject.remember(args.log)
    return subject


def update_records(
    args: argparse.Namespace, subject: "Subject", command: str, names: tuple[str, ...]
) -> None:
    """Make the records ``names`` again; with the file's weights, ``command``'s one for those."""
    from tilewright.studies.accuracy.records import FILE_MAKERS, MAKERS, describe, save_record

    words = f"tilewright {command} {args.model} --tokens {args.tokens} --window {args.window}"
    if args.weights == "file":
        words, names = f"{words} --weights file", (f"{command}-file",)
    for name in names:
        make = (MAKERS | FILE_MAKERS)[name]
        record = describe(subject, f"{words} --update-record") | make(subject, remark)
        remark(f"wrote {save_record(name, record)}")


def save_plot(
    path: Path,
    groups: dict[str, list[tuple[float, float]]],
    *,
    x_label: str,
    limit: float | None = None,
) -> None:
    """Perplexities over something, a colour for each group, a line at ``limit``."""
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    figure = Figure(figsize=(8, 4.5), layout="constrained")
    FigureCanvasAgg(figure)
    axes = figure.subplots()
    for name, points in groups.items():
        if points:
            axes.scatter(*zip(*points, strict=True), s=24, label=name)
    if limit is not None:
        axes.axhline(limit, color="grey", linewidth=0.8)
    axes.set(xlabel=x_label, ylabel="perplexity")
    axes.legend()
    path.parent.mkdir(parents=True, exist_ok=True)
    figure.savefig(path)
