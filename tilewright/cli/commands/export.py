"""``tilewright export``: our blocks in the forms of other tools."""

import argparse

from tilewright.base.console import print_json
from tilewright.base.errors import CommandError
from tilewright.cli.options import BLOCK, adder, refuse

NAME = "export"
HELP = "write a block for a chip flow or a driver"
EXAMPLE = "tilewright export anda_apu --flow orfs --out build/anda_apu"
MORE_EXAMPLES = (
    "tilewright export harmonia_pe --flow librelane --clock 40MHz --out build/harmonia_pe",
    "tilewright export deca --flow orfs --tech asap7 --clock 500 --out build/deca",
    "tilewright export anda_axi:small --registers --out build/driver",
)
FLOWS = "orfs|librelane"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    add = adder(parser)
    add("block BLOCK", BLOCK)
    add("--out DIR", "folder to write to", required=True)
    add(f"--flow {FLOWS}", "flow that takes the block to a layout")
    add("--registers", "SystemRDL, IP-XACT and C headers of registers of anda, harmonia or deca")
    add("--tech T", "technology of the flow: asap7 or sky130hd [the first that the flow takes]")
    add("--clock CLOCK", "of the flow, as 800 (ps), 0.8ns or 1250MHz [1.25 x its record's delay]")


def run(args: argparse.Namespace) -> int:
    if args.registers == bool(args.flow):
        raise CommandError(f"one of --registers and --flow {FLOWS} says what to export")
    if args.registers:
        from tilewright.studies.registers import write_registers

        refuse(args, ("tech", "clock"), "is of a block that goes to a --flow")
        written = write_registers(args.block, args.out)
    else:
        from tilewright.synth.handover.flows import export_block

        options = {"technology": args.tech, "period": args.clock}
        written = export_block(args.block, args.flow, args.out, **options)
    paths = [str(path) for path in written]
    print_json(paths) if args.json else print("\n".join(paths))
    return 0
