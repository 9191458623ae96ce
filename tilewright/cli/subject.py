"""Options that the commands on a real model share, and the subject they describe."""

import argparse
from pathlib import Path
from typing import TYPE_CHECKING

from tilewright.base.console import remark
from tilewright.cli.compiled_options import model_name
from tilewright.cli.options import adder

if TYPE_CHECKING:
    from tilewright.studies.accuracy.subject import Smoothing, Subject
    from tilewright.torch.config import AndaConfig, HarmoniaConfig

TOKENS, WINDOW = 2048, 1024  # minutes on two cores


def add_subject_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the options that say which model is measured, on which text and how."""
    add = adder(parser)
    text = "smollm2, gemma-3-270m, a GGUF file, or a Hugging Face folder"
    add("model MODEL", text, type=model_name)
    add("--text FILE", "prose to measure on [the Python reference]")
    add("--tokens N", "tokens of the text for calibration, and as many more for validation", TOKENS)
    add("--window W", "tokens of a sequence", WINDOW)
    add(
        "--weights W",
        "INT4 with scales searched, INT4 rounded to nearest, or as in the file: search,"
        " nearest, file",
        "search",
    )
    add("--device cpu|cuda", "where PyTorch computes", "cpu")
    add("--log FILE", "log every perplexity here, and go on from those it has")


def open_from(args: argparse.Namespace) -> "Subject":
    """Open the subject that the options describe."""
    # Imported here: `--help` needs none of it.
    from tilewright.golden.params.block import require
    from tilewright.studies.accuracy.subject import open_subject

    require(
        args.recipe is None or args.weights != "search",
        "--recipe: a recipe has no searched scales; give --weights nearest or --weights file",
    )
    names = ("text", "tokens", "window", "weights", "device")
    subject = open_subject(args.model, **{name: getattr(args, name) for name in names})
    subject.remember(args.log)
    return subject


def save_recipe(
    path: Path | None,
    subject: "Subject",
    best: "AndaConfig | HarmoniaConfig | None",
    factors: "Smoothing | None" = None,
) -> None:
    """Write the format that was found as a recipe of ``tilewright.torch``, if a path is given."""
    if path is not None and best is None:
        remark(f"tilewright: nothing is within the tolerance, so {path} is not written")
    elif path is not None and best is not None:
        subject.recipe(best, factors).save(path)
