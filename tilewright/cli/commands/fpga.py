"""``tilewright fpga``: a block placed and routed on an FPGA, and what the records say."""

import argparse

from tilewright.base.clock import clock_period
from tilewright.base.errors import CommandError

NAME = "fpga"
HELP = "place and route a block on an FPGA: LUTs, registers, block RAM, DSP, clock"
EXAMPLE = "tilewright fpga --device ecp5-85k"
MORE_EXAMPLES = (
    "tilewright fpga popcount:odd --path",
    "tilewright fpga anda_apu --device ecp5-45k --speed-grade 8 --seed 7",
    "tilewright fpga harmonia_pe --update-records",
    "tilewright fpga queue:odd --check",
    "tilewright fpga popcount:odd --bitstream popcount.bit",
)


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.epilog = "\n  ".join(["examples:", EXAMPLE, *MORE_EXAMPLES])
    text = "NAME[:PRESET][,FIELD=VALUE]... to place; without one, the committed records are shown"
    parser.add_argument("block", nargs="?", metavar="BLOCK", help=text)
    text = "to place it on [ecp5-85k]; or ecp5-25k, ecp5-45k, nexus, gatemate"
    parser.add_argument("--device", metavar="D", help=text)
    parser.add_argument("--speed-grade", metavar="G", help="of the device [its slowest]")
    parser.add_argument("--seed", metavar="N", type=int, help="of the placement [1]")
    text = "for placement to strive for [100MHz], also as 10000 (ps) or 10ns"
    parser.add_argument("--clock", metavar="CLOCK", type=clock_period, help=text)
    parser.add_argument("--path", action="store_true", help="show every cell on the longest path")
    text = "run the block's bench on its mapped netlist, in place of placing it"
    parser.add_argument("--check", action="store_true", help=text)
    text = "write what configures the FPGA: the block in a shell that needs four or five pins"
    parser.add_argument("--bitstream", metavar="FILE", help=text)
    text = "constraints (LPF) of --bitstream for another board than the ULX3S"
    parser.add_argument("--pins", metavar="FILE", help=text)
    parser.add_argument("--csv", action="store_true", help="print the table as CSV")
    text = "write the result into synth/records; without BLOCK, renew every record that is old"
    parser.add_argument("--update-records", action="store_true", help=text)


def run(args: argparse.Namespace) -> int:
    from tilewright.cli.fpga_bitstream import write_bitstream
    from tilewright.cli.fpga_check import check_netlist
    from tilewright.synth.fpga.devices import MissingNextpnrError
    from tilewright.synth.yosys import SynthesisError

    if args.json and (args.csv or args.path):
        raise CommandError("--json has the path already, and it is no CSV")
    if args.csv and args.path:
        raise CommandError("--csv is the table alone; --path goes without it")
    if args.pins and not args.bitstream:
        raise CommandError("--pins goes with --bitstream")
    try:
        if args.bitstream:
            return write_bitstream(args)
        if args.check:
            return check_netlist(args)
        return _place(args) if args.block else _show(args)
    except (SynthesisError, MissingNextpnrError) as error:
        raise CommandError(str(error)) from error


def _place(args: argparse.Namespace) -> int:
    from tilewright.base.console import print_json, progress
    from tilewright.cli.fpga_tables import print_fpga_path, print_fpga_records
    from tilewright.studies.fpga import store_placement
    from tilewright.synth.fpga.devices import DEFAULT_DEVICE
    from tilewright.synth.fpga.record import fpga_record
    from tilewright.synth.fpga.route import DEFAULT_SEED, TARGET_MHZ, place_and_route

    if args.update_records and (args.seed is not None or args.speed_grade):
        raise CommandError("records are of the default seed and speed grade")
    with progress("fpga", 2) as tick:
        found = place_and_route(
            args.block,
            args.device or DEFAULT_DEVICE,
            speed_grade=args.speed_grade,
            seed=DEFAULT_SEED if args.seed is None else args.seed,
            # A period of 16,666.7 ps was asked for as 60 MHz.
            target_mhz=round(1e6 / args.clock, 6) if args.clock else TARGET_MHZ,
            watch=tick,
        )
    if args.update_records:
        store_placement(found)
    record = fpga_record(found)
    if args.json:
        print_json([record])
        return 0
    print_fpga_records([record], as_csv=args.csv)
    if args.path:
        print_fpga_path(found.report.path)
    return 0


def _show(args: argparse.Namespace) -> int:
    from tilewright.base.console import print_json, progress
    from tilewright.cli.fpga_tables import print_fpga_records
    from tilewright.studies.fpga import renew_records
    from tilewright.synth.fpga.devices import find_device
    from tilewright.synth.fpga.record import FPGA, stale_fpga_records
    from tilewright.synth.record import load_kind

    for option in ("speed_grade", "seed", "clock"):
        if getattr(args, option) is not None:
            raise CommandError(f"--{option.replace('_', '-')} goes with a BLOCK to place")
    if args.path:
        raise CommandError("--path goes with a BLOCK to place")
    if args.update_records:
        stale = stale_fpga_records()
        with progress("fpga", 2 * len(stale)) as tick:
            renew_records(stale, tick)
    device = find_device(args.device).name if args.device else None
    records = [r for r in load_kind(FPGA).values() if device in (None, r["device"])]
    print_json(records) if args.json else print_fpga_records(records, as_csv=args.csv)
    return 0
