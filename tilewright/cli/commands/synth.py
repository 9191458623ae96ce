"""``tilewright synth``: a block in the cells of a technology, and what the records say."""

import argparse
from pathlib import Path

from tilewright.base.clock import clock_period

NAME = "synth"
HELP = "map a block to standard cells: cells, area, longest path"
EXAMPLE = "tilewright synth popcount:odd --tech asap7"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "block", nargs="?", metavar="BLOCK", help="NAME[:PRESET][,FIELD=VALUE]... to map"
    )
    parser.add_argument("--tech", metavar="T", help="asap7 or sky130hd; by default both")
    parser.add_argument(
        "--liberty",
        metavar="FILE",
        type=Path,
        action="append",
        help="your own Liberty file instead, plain or gzipped; again for each further one",
    )
    parser.add_argument(
        "--dont-use",
        metavar="CELL",
        action="append",
        default=[],
        help="a cell of it, or a pattern, to leave out; again for each further one",
    )
    parser.add_argument(
        "--goal", choices=("area", "balanced", "fastest"), help="goal of synthesis [area]"
    )
    parser.add_argument(
        "--clock",
        metavar="CLOCK",
        type=clock_period,
        help="to meet, as 800 (ps), 0.8ns or 1250MHz: takes the smallest result that does",
    )
    text = "enables of registers stop their clock (default), or choose the old value"
    parser.add_argument("--gating", action=argparse.BooleanOptionalAction, default=True, help=text)
    parser.add_argument("--parts", action="store_true", help="show the area of each part")
    parser.add_argument(
        "--hierarchy", action="store_true", help="optimise each part alone, and show its area"
    )
    parser.add_argument(
        "-o", "--output", metavar="FILE", type=Path, help="write the records as JSON to a file"
    )
    parser.add_argument(
        "--netlist", metavar="FILE", type=Path, help="write the netlist as Verilog to a file"
    )
    parser.add_argument("--path", action="store_true", help="show every cell on the longest path")
    parser.add_argument(
        "--update-records", action="store_true", help="write the results into synth/records"
    )
    parser.add_argument(
        "--all",
        action="store_true",
        help="every preset of the stream and arithmetic blocks, and what else has a record",
    )
    parser.add_argument(
        "--stale",
        action="store_true",
        help="with --all, only blocks without a fresh record, or with --prove without a verdict",
    )
    text = "the area of each part, or with --clock the clock of the whole: for accelerators"
    parser.add_argument("--system", action="store_true", help=text)
    parser.add_argument(
        "--energy",
        action="store_true",
        help="power and energy of a DECA PE at the paper's clock, in asap7: minutes",
    )
    parser.add_argument(
        "--prove",
        action="store_true",
        help="prove that each netlist is equivalent to its RTL; where ABC cannot, run its bench",
    )
    parser.add_argument(
        "--check-technology",
        metavar="FULL",
        nargs="+",
        type=Path,
        help="measure --tech against the full Liberty files it came from, instead",
    )


def run(args: argparse.Namespace) -> int:
    from tilewright.cli import synthesis

    if args.check_technology:
        return synthesis.check_technology(args)
    if args.system:
        return synthesis.map_system(args)
    return synthesis.measure_energy(args) if args.energy else synthesis.map_blocks(args)
