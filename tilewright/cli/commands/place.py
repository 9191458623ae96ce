"""``tilewright place``: a block's cells placed in rows, and what its wires cost."""

import argparse
from pathlib import Path

from tilewright.base.errors import CommandError

NAME = "place"
HELP = "place a block's cells, an estimate before routing: die, wires, delay and energy with them"
EXAMPLE = "tilewright place --tech asap7"
MORE_EXAMPLES = (
    "tilewright place popcount:odd",
    "tilewright place anda_apu --goal fastest --svg apu.svg",
    "tilewright place float_mul:pipelined --spef mul.spef --netlist mul.v",
)


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.epilog = "\n  ".join(["examples:", EXAMPLE, *MORE_EXAMPLES])
    text = "NAME[:PRESET][,FIELD=VALUE]... to place; without one, the committed records are shown"
    parser.add_argument("block", nargs="?", metavar="BLOCK", help=text)
    parser.add_argument("--tech", metavar="T", help="asap7 or sky130hd [asap7; of records, both]")
    text = "what synthesis strives for [area]"
    parser.add_argument("--goal", choices=("area", "balanced", "fastest"), help=text)
    text = "share of the rows that cells fill [0.7]"
    parser.add_argument("--utilisation", metavar="U", type=float, help=text)
    parser.add_argument("--svg", metavar="FILE", type=Path, help="draw the layout")
    text = "write the wires for another timing tool; ports and instances as in --netlist"
    parser.add_argument("--spef", metavar="FILE", type=Path, help=text)
    text = "write the netlist after timing repair as Verilog"
    parser.add_argument("--netlist", metavar="FILE", type=Path, help=text)
    parser.add_argument("--csv", action="store_true", help="print the table as CSV")
    text = "write the result into synth/records; without BLOCK, renew every old record"
    parser.add_argument("--update-records", action="store_true", help=text)


def run(args: argparse.Namespace) -> int:
    from tilewright.synth.yosys import SynthesisError

    if args.json and args.csv:
        raise CommandError("--json is no CSV")
    try:
        return _place(args) if args.block else _show(args)
    except SynthesisError as error:
        raise CommandError(str(error)) from error


def _place(args: argparse.Namespace) -> int:
    from tilewright.base.console import print_json, progress
    from tilewright.base.files import write_atomic
    from tilewright.cli.placed_tables import print_placed
    from tilewright.studies.placement import place_and_measure, store_placed
    from tilewright.synth.flow import DEFAULT_GOAL, Goal
    from tilewright.synth.place.picture import picture_of, picture_svg
    from tilewright.synth.place.spef import placed_verilog, spef

    if args.update_records and args.utilisation is not None:
        raise CommandError("records are of the default utilisation")
    goal = Goal(args.goal) if args.goal else DEFAULT_GOAL
    with progress("place", 4) as tick:
        placed, record = place_and_measure(
            args.block, args.tech or "asap7", goal=goal, utilisation=args.utilisation, watch=tick
        )
    if args.update_records:
        store_placed(placed, record)
    if args.svg:
        write_atomic(args.svg, picture_svg(picture_of(placed), f"layout of {args.block}"))
    if args.spef:
        write_atomic(args.spef, spef(placed.layout))
    if args.netlist:
        write_atomic(args.netlist, placed_verilog(placed.layout))
    print_json([record]) if args.json else print_placed([record], as_csv=args.csv)
    return 0


def _show(args: argparse.Namespace) -> int:
    from tilewright.base.console import print_json, progress
    from tilewright.cli.placed_tables import print_placed
    from tilewright.studies.placement import renew_placed
    from tilewright.synth.place.record import PLACED, stale_placed_records
    from tilewright.synth.record import load_kind
    from tilewright.synth.technology import load_technology

    for option in ("goal", "utilisation", "svg", "spef", "netlist"):
        if getattr(args, option) is not None:
            raise CommandError(f"--{option} goes with a BLOCK to place")
    if args.update_records:
        stale = stale_placed_records()
        with progress("place", 4 * len(stale)) as tick:
            renew_placed(stale, tick)
    technology = load_technology(args.tech).name if args.tech else None
    records = [r for r in load_kind(PLACED).values() if technology in (None, r["technology"])]
    print_json(records) if args.json else print_placed(records, as_csv=args.csv)
    return 0
