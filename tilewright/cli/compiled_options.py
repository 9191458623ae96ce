"""Options that say how a language model is compiled, for the commands that do."""

import argparse
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tilewright.base.errors import CommandError

if TYPE_CHECKING:
    from tilewright.studies.compiled.compiling import Options

__all__ = ["add_compile_options", "options_of", "refuse_compile_options"]

_FIELDS = {
    **{"context": "context", "weights": "weight_bits", "head": "head_bits", "group": "group"},
    **{"recipe": "recipe", "mantissas": "mantissas", "single-tokens": "single_tokens"},
}


def add_compile_options(parser: argparse.ArgumentParser) -> None:
    """Add the context and the precisions; what is not given has the study's own value."""
    parser.add_argument(
        "--context", type=int, metavar="N", help="tokens that the cache has room for [256]"
    )
    parser.add_argument(
        "--weights", type=int, choices=(4, 8), help="bits of the weights of the layers [8]"
    )
    parser.add_argument("--head", type=int, choices=(4, 8), help="of the vocabulary head [8]")
    parser.add_argument("--group", type=int, metavar="N", help="weights that share a scale [64]")
    parser.add_argument(
        "--mantissas",
        metavar="QKV,O,U,D",
        help="bits of Anda's activations before the four kinds of projections [8,8,8,8]",
    )
    parser.add_argument(
        "--single-tokens",
        action="store_true",
        default=None,
        help="on Anda, write no programs for several tokens of a prompt: they pass one by one",
    )
    parser.add_argument(
        "--recipe",
        type=Path,
        metavar="FILE",
        help="take bits and groups of weights, of Anda the mantissas of activations, of Harmonia"
        " windows, offsets and factors of the cache from a recipe of tilewright search or of"
        " tilewright.torch",
    )


def options_of(args: argparse.Namespace, target: str) -> "Options":
    """Return how the arguments want a model compiled."""
    from tilewright.studies.compiled.compiling import Options

    given = _given(args)
    for option in ("weights", "group", "mantissas"):
        if "recipe" in given and _FIELDS[option] in given:
            raise CommandError(f"--{option} is what --recipe says; leave one of them out")
    return Options(target=target, **given)


def refuse_compile_options(args: argparse.Namespace, why: str) -> None:
    """Refuse options of compiling where nothing is compiled."""
    for option, field in _FIELDS.items():
        if field in _given(args):
            raise CommandError(f"--{option} goes with a model to be compiled: {why}")


def _given(args: argparse.Namespace) -> dict[str, Any]:
    values = {field: getattr(args, option.replace("-", "_")) for option, field in _FIELDS.items()}
    return {field: value for field, value in values.items() if value is not None}
