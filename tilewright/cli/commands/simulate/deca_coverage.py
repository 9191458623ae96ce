"""``tilewright simulate deca.coverage``: combinations of formats, densities, stalls and errors."""

import argparse

from tilewright.base.console import print_json, print_table
from tilewright.base.errors import CommandError
from tilewright.cli.workloads import add_simulation, add_update_record, simulation_of

NAME = "deca.coverage"
HELP = "functional coverage of DECA: combinations of properties of tiles, a hole fails"
EXAMPLE = "tilewright simulate deca.coverage --block deca:small"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    add_update_record(parser)
    add_simulation(parser, "every preset")


def run(args: argparse.Namespace) -> int:
    from tilewright.studies.measured import write_measured
    from tilewright.studies.runs.deca_coverage import RECORD, cover_tiles

    if args.update_record and args.block:
        raise CommandError("--update-record measures every preset: leave out --block")
    found = cover_tiles(args.block, simulation=simulation_of(args))
    data = {block: reached.as_dict() for block, reached in found.items()}
    if args.update_record:
        command = "tilewright simulate deca.coverage --update-record"
        write_measured(RECORD, {"command": command, "seed": args.seed, "blocks": data})
    if args.json:
        print_json({"seed": args.seed, "coverage_by_block": data})
        return 0
    rows = []
    for block, reached in found.items():
        bins = len(reached.coverage.hits)
        covered = bins - len(reached.coverage.holes)
        numbers = (covered, bins, reached.cases, reached.squashed)
        rows.append((block, *(f"{number:,}" for number in numbers)))
    print_table(("BLOCK", "COMBINATIONS SEEN", "OF", "TILES", "SQUASHED"), rows)
    return 0
