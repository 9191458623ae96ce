"""Whole computations that run on simulated blocks: ``tilewright simulate SYSTEM.WORKLOAD``.

Each module has ``add_arguments(parser)`` for its own options and ``run(args)``, which returns the
exit code of the command. Options are in groups whose titles are the workloads that take them.
"""

import argparse
from importlib import import_module
from typing import Any

from tilewright.base.errors import CommandError

__all__ = ["WORKLOADS", "add_options", "refuse_options_of_others"]

WORKLOADS = {  # by name, the module; imported when it is asked for
    "deca.gemm": "tilewright.studies.runs.deca_gemm",
    "deca.cycles": "tilewright.studies.runs.deca_cycles",
    "deca.coverage": "tilewright.studies.runs.deca_coverage",
    "deca.block": "tilewright.studies.runs.deca_block",
    "anda": "tilewright.studies.runs.program",
    "anda.block": "tilewright.studies.runs.anda_block",
    "harmonia": "tilewright.studies.runs.program",
    "harmonia.block": "tilewright.studies.runs.harmonia_block",
}


class _Group:
    """A group of options that keeps what was added to it."""

    def __init__(self, group: Any, actions: list[argparse.Action]):
        self._group, self._actions = group, actions

    def add_argument(self, *names: str, **options: Any) -> None:
        self._actions.append(self._group.add_argument(*names, **options))


class _Groups:
    """A parser, for ``add_argument_group``, that keeps the options of each group by its title."""

    def __init__(self, parser: argparse.ArgumentParser):
        self._parser = parser
        self.options: list[tuple[str, list[argparse.Action]]] = []

    def add_argument_group(self, title: str, description: str | None = None) -> _Group:
        actions: list[argparse.Action] = []
        self.options.append((title, actions))
        return _Group(self._parser.add_argument_group(title, description), actions)


def add_options(parser: argparse.ArgumentParser) -> None:
    """The options of all workloads."""
    groups = _Groups(parser)
    for module in dict.fromkeys(WORKLOADS.values()):
        import_module(module).add_arguments(groups)
    parser.set_defaults(options_of_workloads=groups.options)


def refuse_options_of_others(args: argparse.Namespace) -> None:
    """Refuse an option that ``args.block``, a workload or a block, would not look at."""
    for title, actions in args.options_of_workloads:
        for action in actions:
            given = getattr(args, action.dest) != action.default
            if given and args.block not in title.split(", "):
                option = action.option_strings[0]
                raise CommandError(f"{option} is an option of {title}, not of {args.block}")
