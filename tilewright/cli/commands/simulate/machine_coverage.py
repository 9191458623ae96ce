"""``tilewright simulate machine.coverage``: what programs of accelerators can be and meet."""

import argparse
from typing import TYPE_CHECKING

from tilewright.base.console import print_json, print_table
from tilewright.base.errors import CommandError
from tilewright.cli.workloads import add_simulation, add_update_record, simulation_of

if TYPE_CHECKING:
    from tilewright.studies.runs.machine_coverage import ProgramCoverage

NAME = "machine.coverage"
HELP = "functional coverage of Anda and Harmonia: instructions, errors, stalls; a hole fails"
EXAMPLE = "tilewright simulate machine.coverage --block anda:small"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    add_update_record(parser)
    add_simulation(parser, "anda:small and harmonia:small")


def run(args: argparse.Namespace) -> int:
    from tilewright.studies.measured import write_measured
    from tilewright.studies.runs.machine_coverage import RECORD, cover_programs

    if args.update_record and args.block:
        raise CommandError("--update-record measures both accelerators: leave out --block")
    found = cover_programs(args.block, simulation=simulation_of(args))
    data = {block: reached.as_dict() for block, reached in found.items()}
    if args.update_record:
        command = "tilewright simulate machine.coverage --update-record"
        write_measured(RECORD, {"command": command, "seed": args.seed, "blocks": data})
    if args.json:
        print_json({"seed": args.seed, "coverage_by_block": data})
    else:
        _print(found)
    return 0


def _print(found: "dict[str, ProgramCoverage]") -> None:
    rows = [
        (block, " x ".join(cross.axes), *_counts(len(cross.holes), len(cross.hits)), hits)
        for block, reached in found.items()
        for cross in reached.crosses
        for hits in (f"{sum(cross.hits):,}",)
    ]
    print_table(("BLOCK", "CROSS", "COMBINATIONS SEEN", "OF", "TIMES"), rows)


def _counts(holes: int, bins: int) -> tuple[str, str]:
    return f"{bins - holes:,}", f"{bins:,}"
