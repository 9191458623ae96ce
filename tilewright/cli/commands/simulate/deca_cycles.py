"""``tilewright simulate deca.cycles``: cycles per tile: measured, by the model, by the formula."""

import argparse
from typing import TYPE_CHECKING

from tilewright.base.console import print_json, print_table
from tilewright.base.errors import CommandError
from tilewright.cli.workloads import add_simulation, add_update_record, simulation_of

if TYPE_CHECKING:
    from tilewright.studies.runs.deca_cycles import CycleRow

NAME = "deca.cycles"
HELP = "cycles per tile of DECA with data there"
EXAMPLE = "tilewright simulate deca.cycles --block deca:small --cases 70"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--cases", type=int, default=1000, metavar="N", help="tiles [1000]")
    add_update_record(parser)
    add_simulation(parser, "every preset")


def run(args: argparse.Namespace) -> int:
    from tilewright.studies.measured import write_measured
    from tilewright.studies.runs.deca_cycles import RECORD, measure_cycles

    if args.update_record and args.block:
        raise CommandError("--update-record measures every preset: leave out --block")
    tables = measure_cycles(args.block, cases=args.cases, simulation=simulation_of(args))
    if args.update_record:
        command = f"tilewright simulate deca.cycles --cases {args.cases} --update-record"
        write_measured(RECORD, {"command": command, "seed": args.seed, "blocks": tables})
    if args.json:
        print_json({"seed": args.seed, "cycles_by_block": tables})
    else:
        _print(tables)
    return 0


def _print(tables: "dict[str, tuple[CycleRow, ...]]") -> None:
    print_table(
        ("BLOCK", "CODE BITS", "SCALE", "TILE", "DENSITY", "TILES", "MEASURED", "MODEL", "FORMULA"),
        [
            (
                block,
                row.code_bits,
                row.scale,
                "int8" if row.int8 else "bf16",
                f"{row.density:g}",
                row.tiles,
                *(f"{cycles:.4f}" for cycles in (row.measured, row.model, row.formula)),
            )
            for block, rows in tables.items()
            for row in rows
        ],
    )
