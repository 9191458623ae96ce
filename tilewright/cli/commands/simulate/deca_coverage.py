"""``tilewright simulate deca.coverage``: combinations of what a tile can be and meet."""

import argparse
from collections.abc import Mapping
from typing import TYPE_CHECKING

from tilewright.cli.workloads import add_simulation, add_update_record, show_coverage

if TYPE_CHECKING:
    from tilewright.studies.runs.deca_coverage import TileCoverage

NAME = "deca.coverage"
HELP = "functional coverage of DECA: combinations of properties of tiles, a hole fails"
EXAMPLE = "tilewright simulate deca.coverage --block deca:small"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    add_update_record(parser)
    add_simulation(parser, "every preset")


def run(args: argparse.Namespace) -> int:
    from tilewright.studies.runs.deca_coverage import RECORD, cover_tiles

    return show_coverage(
        args,
        NAME,
        cover_tiles,
        everything="every preset",
        record=RECORD,
        header=("BLOCK", "COMBINATIONS SEEN", "OF", "TILES", "SQUASHED"),
        rows=_rows,
    )


def _rows(found: "Mapping[str, TileCoverage]") -> list[tuple[str, ...]]:
    rows = []
    for block, reached in found.items():
        bins = len(reached.coverage.hits)
        covered = bins - len(reached.coverage.holes)
        numbers = (covered, bins, reached.cases, reached.squashed)
        rows.append((block, *(f"{number:,}" for number in numbers)))
    return rows
