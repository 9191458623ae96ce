"""``tilewright synth``: a block in the cells of a technology, and what the records say."""

import argparse

from tilewright.cli.options import BLOCK, adder

NAME = "synth"
HELP = "map a block to standard cells: cells, area, longest path"
EXAMPLE = "tilewright synth popcount:odd --tech asap7"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    add = adder(parser)
    add("block BLOCK", f"{BLOCK} to map", nargs="?")
    add("--tech T", "asap7 or sky130hd; by default both")
    add("--liberty FILE...", "your own Liberty file instead, plain or gzipped")
    add("--dont-use CELL...", "a cell of it, or a pattern, to leave out")
    add("--goal area|balanced|fastest", "goal of synthesis [area]")
    add("--clock CLOCK", "take the smallest result that meets 800 (ps), 0.8ns or 1250MHz")
    text = "enables of registers stop their clock (default), or choose the old value"
    add("--gating", text, True, action=argparse.BooleanOptionalAction)
    add("--parts", "show the area of each part")
    add("--hierarchy", "optimise each part alone, and show its area")
    add("--netlist FILE", "write the netlist as Verilog to a file")
    add("--path", "show every cell on the longest path")
    add("--update-records", "write the results into synth/records")
    add("--all", "every preset of the stream and arithmetic blocks, and what else has a record")
    add("--stale", "with --all, only blocks without fresh records, or with --prove no verdict")
    add("--system", "of an accelerator the area of each part, or with --clock that of the whole")
    add("--energy", "power and energy of a DECA PE at the paper's clock, in asap7: minutes")
    add("--prove", "prove each netlist equivalent to its RTL; where ABC cannot, run its bench")
    text = "measure --tech against the full Liberty files it came from, instead"
    add("--check-technology FILE", text, nargs="+")


def run(args: argparse.Namespace) -> int:
    from tilewright.cli import synthesis

    if args.check_technology:
        return synthesis.check_technology(args)
    if args.system:
        return synthesis.map_system(args)
    return synthesis.measure_energy(args) if args.energy else synthesis.map_blocks(args)
