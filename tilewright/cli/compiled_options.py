"""Options that say how a language model is compiled, for the commands that do."""

import argparse
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tilewright.base.errors import CommandError

if TYPE_CHECKING:
    from tilewright.compiler.compile import Options

_FIELDS = {
    **{"context": "context", "weights": "weight_bits", "head": "head_bits", "group": "group"},
    **{"recipe": "recipe", "mantissas": "mantissas", "sequences": "sequences"},
}


def model_name(text: str) -> str:
    """Return the name of a model with weights: the table of shapes has its size in it."""
    return "smollm2" if text.lower() == "smollm2-135m" else text


def add_compile_options(parser: argparse.ArgumentParser) -> None:
    """Add the context and the precisions; options that are not given have the compiler's values."""
    parser.add_argument(
        "--context", type=int, metavar="N", help="tokens of a sequence in the cache [256]"
    )
    parser.add_argument(
        "--sequences", type=int, metavar="N", help="sequences in the cache [1, or the prompts]"
    )
    parser.add_argument(
        "--weights",
        metavar="BITS",
        help="bits of the weights of the layers, 4 or 8, or FILE.py:CLASS of yours [8]",
    )
    parser.add_argument(
        "--head", type=int, choices=(4, 8), help="bits of the weights of the vocabulary head [8]"
    )
    parser.add_argument("--group", type=int, metavar="N", help="weights that share a scale [64]")
    parser.add_argument(
        "--mantissas",
        metavar="QKV,O,U,D",
        help="bits of Anda's activations before the four kinds of projections [8,8,8,8]",
    )
    parser.add_argument(
        "--recipe",
        type=Path,
        metavar="FILE",
        help="take formats and factors from a recipe of tilewright search or tilewright.torch: bits"
        " and groups of weights, Anda's mantissas, windows and offsets of Harmonia's cache",
    )


def options_of(args: argparse.Namespace, target: str) -> "Options":
    """Options of the compiler from the arguments."""
    from tilewright.compiler.compile import Options

    given = _given(args)
    for option in ("weights", "group", "mantissas"):
        if "recipe" in given and _FIELDS[option] in given:
            raise CommandError(f"--{option} is what --recipe says; leave one of them out")
    if "weight_bits" in given:
        given |= _weights(given.pop("weight_bits"), "group" in given)
    if "recipe" in given:
        from tilewright.studies.recipes import RecipeFile

        given["recipe"] = RecipeFile(given["recipe"])
    return Options(target=target, **given)


def _weights(text: str, has_group: bool) -> dict[str, Any]:
    """What ``--weights`` asks for: bits, or a format of the user's own, which has a group."""
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
    for option, field in _FIELDS.items():
        if field in _given(args):
            raise CommandError(f"--{option} goes with a model to be compiled: {why}")


def _given(args: argparse.Namespace) -> dict[str, Any]:
    values = {field: getattr(args, option.replace("-", "_")) for option, field in _FIELDS.items()}
    return {field: value for field, value in values.items() if value is not None}
