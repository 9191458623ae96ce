"""Arguments of commands, declared in the words by which ``--help`` shows them."""

import argparse
from collections.abc import Callable, Iterable
from functools import partial
from pathlib import Path
from typing import Any

from tilewright.base.clock import clock_period
from tilewright.base.errors import CommandError

MEMORY = "memory of an accelerator: flat, or hbm2, lpddr5 or ddr4 with rows and refresh [flat]"
BLOCK = "NAME[:PRESET][,FIELD=VALUE]..."
# How a value is read, by the word that stands for it; all others are text.
TYPES = {"N": int, "FILE": Path, "DIR": Path, "CLOCK": clock_period}


def option(
    parser: argparse._ActionsContainer, words: str, help: str, default: Any = None, **settings: Any
) -> None:
    """Add an argument: ``--seed N``, ``-o --output DIR`` or, by its place alone, ``model MODEL``.

    The last word stands for the value, or names the choices, as in ``--goal area|fastest``; dots
    after it say that the option may be repeated. Without such a word an option is a flag. A value
    has the type of ``default``, which ends the help, or one by its word.
    """
    *names, value = words.split()
    if value.startswith("-"):
        names.append(value)
        settings.setdefault("action", "store_true")
    elif "|" in value and not value.isupper():
        settings["choices"] = [int(c) if c.isdigit() else c for c in value.split("|")]
        settings["type"] = type(settings["choices"][0])
    else:
        if value.endswith("...") and not value.endswith(",..."):
            value, help = value.removesuffix("..."), f"{help}; repeatable"
            default, settings["action"] = [], "append"
        kind = TYPES.get(value, str) if default in (None, []) else type(default)
        settings = {"metavar": value, "type": kind} | settings
    if default is not None:
        settings["default"] = default
        help = help if default is True or default in ("", []) else f"{help} [{default}]"
    parser.add_argument(*names, help=help, **settings)


def adder(parser: argparse._ActionsContainer) -> Callable[..., None]:
    """Return :func:`option` for one parser."""
    return partial(option, parser)


def refuse(args: argparse.Namespace, names: Iterable[str], why: str) -> None:
    """Refuse those options of ``names`` that were given; ``why`` follows the option's name."""
    for name in names:
        value = getattr(args, name)
        if not (value is None or value is False or value == []):
            raise CommandError(f"--{name.replace('_', '-')} {why}")
