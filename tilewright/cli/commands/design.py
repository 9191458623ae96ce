"""``tilewright design``: one block through every step, from Verilog to tokens a second."""

import argparse
from pathlib import Path

from tilewright.base.console import print_json, progress, show

NAME = "design"
HELP = "take a block through every step: Verilog, lint, simulation, area, clock, tokens a second"
EXAMPLE = "tilewright design popcount:odd --cases 50"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    add = parser.add_argument
    add("block", metavar="BLOCK", help="NAME[:PRESET][,FIELD=VALUE]..., such as harmonia,rows=4")
    add("-o", "--output", metavar="DIR", type=Path, help="write the Verilog here")
    add("--tech", default="asap7", metavar="T", help="asap7 or sky130hd [%(default)s]")
    text = "language model that an accelerator or a DECA is asked about [%(default)s]"
    add("--model", default="smollm2", metavar="MODEL", help=text)
    text = (
        "map and time a whole accelerator instead of scaling the record of the published size:"
        " minutes to an hour"
    )
    add("--full", action="store_true", help=text)
    add("--cases", type=int, default=200, metavar="N", help="cases of a simulation [%(default)s]")


def run(args: argparse.Namespace) -> int:
    """Print a row for each figure; a step that cannot be made says why."""
    from tilewright.studies.design import design

    with progress("design", 5) as tick:
        done = design(
            args.block,
            folder=args.output,
            technology=args.tech,
            model=args.model,
            cases=args.cases,
            full=args.full,
            doing=tick,
            mapping=lambda module: tick(module, steps=0),
        )
    print_json(done) if args.json else show(done.report)
    return 0 if done.passed else 1
