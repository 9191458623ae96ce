"""``tilewright design``: one block through every step, from Verilog to tokens a second."""

import argparse

from tilewright.base.console import print_json, progress, show
from tilewright.cli.options import BLOCK, adder

NAME = "design"
HELP = "take a block through every step: Verilog, lint, simulation, area, clock, tokens a second"
EXAMPLE = "tilewright design popcount:odd --cases 50"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the block, the technology and the model that it is to run."""
    add = adder(parser)
    add("block BLOCK", f"{BLOCK}, such as harmonia,rows=4")
    add("-o --output DIR", "write the Verilog here")
    add("--tech T", "asap7 or sky130hd", "asap7")
    add("--model MODEL", "language model that an accelerator or a DECA is asked about", "smollm2")
    add(
        "--full",
        "map and time a whole accelerator instead of scaling the record of the published size:"
        " minutes to an hour",
    )
    add("--cases N", "cases of the simulation", 200)


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
