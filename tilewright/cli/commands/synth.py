"""``tilewright synth``: a block in the cells of a technology, and what the records say."""

import argparse
from pathlib import Path

from tilewright.base.clock import clock_period

NAME = "synth"
HELP = "map a block to standard cells: cells, area, longest path"
EXAMPLE = "tilewright synth popcount:odd --tech asap7"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    add = parser.add_argument
    add("block", nargs="?", metavar="BLOCK", help="NAME[:PRESET][,FIELD=VALUE]... to map")
    add("--tech", metavar="T", help="asap7 or sky130hd; by default both")
    text = "your own Liberty file instead, plain or gzipped; again for each further one"
    add("--liberty", metavar="FILE", type=Path, action="append", help=text)
    text = "a cell of it, or a pattern, to leave out; again for each further one"
    add("--dont-use", metavar="CELL", action="append", default=[], help=text)
    add("--goal", choices=("area", "balanced", "fastest"), help="goal of synthesis [area]")
    text = "to meet, as 800 (ps), 0.8ns or 1250MHz: takes the smallest result that does"
    add("--clock", metavar="CLOCK", type=clock_period, help=text)
    text = "enables of registers stop their clock (default), or choose the old value"
    add("--gating", action=argparse.BooleanOptionalAction, default=True, help=text)
    add("--parts", action="store_true", help="show the area of each part")
    text = "optimise each part alone, and show its area"
    add("--hierarchy", action="store_true", help=text)
    add("--netlist", metavar="FILE", type=Path, help="write the netlist as Verilog to a file")
    add("--path", action="store_true", help="show every cell on the longest path")
    add("--update-records", action="store_true", help="write the results into synth/records")
    text = "every preset of the stream and arithmetic blocks, and what else has a record"
    add("--all", action="store_true", help=text)
    text = "with --all, only blocks without a fresh record, or with --prove without a verdict"
    add("--stale", action="store_true", help=text)
    text = "the area of each part, or with --clock the clock of the whole: for accelerators"
    add("--system", action="store_true", help=text)
    text = "power and energy of a DECA PE at the paper's clock, in asap7: minutes"
    add("--energy", action="store_true", help=text)
    text = "prove that each netlist is equivalent to its RTL; where ABC cannot, run its bench"
    add("--prove", action="store_true", help=text)
    text = "measure --tech against the full Liberty files it came from, instead"
    add("--check-technology", metavar="FULL", nargs="+", type=Path, help=text)


def run(args: argparse.Namespace) -> int:
    from tilewright.cli import synthesis

    if args.check_technology:
        return synthesis.check_technology(args)
    if args.system:
        return synthesis.map_system(args)
    return synthesis.measure_energy(args) if args.energy else synthesis.map_blocks(args)
