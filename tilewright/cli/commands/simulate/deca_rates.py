"""``tilewright simulate deca.rates``: rates of DECA with core and memory, and the model's."""

import argparse

from tilewright.base.console import print_json, print_table
from tilewright.base.errors import CommandError
from tilewright.cli.workloads import add_simulation, add_update_record, simulation_of

NAME = "deca.rates"
HELP = "rates of DECA with core and memory: schemes, prefetchers, integration"
EXAMPLE = "tilewright simulate deca.rates --tiles 30"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--tiles",
        type=int,
        default=120,
        metavar="N",
        help="tiles of a stream with every line in the L2 [120]",
    )
    add_update_record(parser)
    add_simulation(parser, "deca_tepl and deca")


def run(args: argparse.Namespace) -> int:
    from tilewright.studies.measured import write_measured
    from tilewright.studies.runs.deca_rates import RECORD, as_record, measure_rates

    if args.block:
        raise CommandError("deca.rates runs on deca_tepl and deca of the paper: leave out --block")
    rates = measure_rates(args.tiles, simulation_of(args))
    command = f"tilewright simulate deca.rates --tiles {args.tiles} --update-record"
    record = as_record(rates, command, args.seed)
    if args.update_record:
        write_measured(RECORD, record)
    if args.json:
        print_json(record)
        return 0
    print_table(
        ("STREAM", "BLOCK", "SCHEME", "TILES", "CYCLES/TILE", "MODEL", "LINES", "MISSED"),
        [
            (
                *(rate.name, rate.block, rate.scheme, rate.tiles),
                f"{rate.cycles_per_tile:.2f}",
                f"{rate.model_cycles_per_tile:.2f}",
                *(rate.lines_read, rate.lines_missed),
            )
            for rate in rates
        ],
    )
    return 0
