"""``tilewright simulate machine.coverage``: what programs of accelerators can be and meet."""

import argparse
from collections.abc import Mapping
from typing import TYPE_CHECKING

from tilewright.cli.workloads import add_simulation, add_update_record, show_coverage

if TYPE_CHECKING:
    from tilewright.studies.runs.machine_coverage import ProgramCoverage

NAME = "machine.coverage"
HELP = "functional coverage of Anda and Harmonia: instructions, errors, stalls; a hole fails"
EXAMPLE = "tilewright simulate machine.coverage --block anda:small"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    add_update_record(parser)
    add_simulation(parser, "anda:small and harmonia:small")


def run(args: argparse.Namespace) -> int:
    from tilewright.studies.runs.machine_coverage import RECORD, cover_programs

    return show_coverage(
        args,
        NAME,
        cover_programs,
        everything="both accelerators",
        record=RECORD,
        header=("BLOCK", "CROSS", "COMBINATIONS SEEN", "OF", "TIMES"),
        rows=_rows,
    )


def _rows(found: "Mapping[str, ProgramCoverage]") -> list[tuple[str, ...]]:
    rows = []
    for block, reached in found.items():
        for cross in reached.crosses:
            bins = len(cross.hits)
            numbers = (bins - len(cross.holes), bins, sum(cross.hits))
            rows.append((block, " x ".join(cross.axes), *(f"{number:,}" for number in numbers)))
    return rows
