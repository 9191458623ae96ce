"""Options about language models with weights: how one is compiled, and how it is measured."""

import argparse
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tilewright.base.console import remark
from tilewright.base.errors import CommandError
from tilewright.cli.options import adder, refuse

if TYPE_CHECKING:
    from tilewright.compiler.compile import Options
    from tilewright.studies.accuracy.subject import Smoothing, Subject
    from tilewright.torch.config import AndaConfig, HarmoniaConfig

TOKENS, WINDOW = 2048, 1024  # minutes on two cores
_FIELDS = {  # option -> field of Options
    **{"context": "context", "weights": "weight_bits", "head": "head_bits", "group": "group"},
    **{"recipe": "recipe", "mantissas": "mantissas", "sequences": "sequences"},
}


def model_name(text: str) -> str:
    """Return the name of a model with weights: the table of shapes has its size in it."""
    return "smollm2" if text.lower() == "smollm2-135m" else text


def add_compile_options(parser: argparse.ArgumentParser) -> None:
    """Add the context and the precisions; options that are not given have the compiler's values."""
    add = adder(parser)
    add("--context N", "tokens of a sequence in the cache [256]")
    add("--sequences N", "sequences in the cache [1, or the prompts]")
    add("--weights BITS", "bits of the layers' weights, 4 or 8, or FILE.py:CLASS of yours [8]")
    add("--head 4|8", "bits of the weights of the vocabulary head [8]")
    add("--group N", "weights that share a scale [64]")
    text = "bits of Anda's activations before the four kinds of projections [8,8,8,8]"
    add("--mantissas QKV,O,U,D", text)
    add(
        "--recipe FILE",
        "take formats and factors from a recipe of tilewright search or tilewright.torch: bits"
        " and groups of weights, Anda's mantissas, windows and offsets of Harmonia's cache",
    )


def options_of(args: argparse.Namespace, target: str) -> "Options":
    """Options of the compiler from the arguments."""
    from tilewright.compiler.compile import Options

    given = _given(args)
    if "recipe" in given:
        refuse(
            args, ("weights", "group", "mantissas"), "is what --recipe says; leave one of them out"
        )
    if "weight_bits" in given:
        given |= _weights(given.pop("weight_bits"), "group" in given)
    if "recipe" in given:
        from tilewright.studies.recipes import RecipeFile

        given["recipe"] = RecipeFile(given["recipe"])
    return Options(target=target, **given)


def _weights(text: str, has_group: bool) -> dict[str, Any]:
    """Read ``--weights``: bits, or a format of the user's own, which has a group."""
    from tilewright.golden.formats import is_own, resolve_format

    if text in ("4", "8"):
        return {"weight_bits": int(text)}
    if not is_own(text):
        raise CommandError(f"--weights must be 4, 8 or FILE.py:CLASS, not {text!r}")
    if has_group:
        raise CommandError(f"--group is that of {text}; leave it out")
    return {"weight_format": resolve_format(text)}


def refuse_compile_options(args: argparse.Namespace, why: str) -> None:
    """Refuse options of compiling where nothing is compiled."""
    refuse(args, _FIELDS, f"goes with a model to be compiled: {why}")


def _given(args: argparse.Namespace) -> dict[str, Any]:
    values = {field: getattr(args, option) for option, field in _FIELDS.items()}
    return {field: value for field, value in values.items() if value is not None}


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
