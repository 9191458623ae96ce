"""``tilewright fpga``: a block placed and routed on an FPGA, and what the records say."""

import argparse
from pathlib import Path
from typing import TYPE_CHECKING

from tilewright.base.console import print_json, progress, show
from tilewright.base.errors import CommandError
from tilewright.base.files import write_atomic
from tilewright.cli.options import BLOCK, adder, refuse
from tilewright.cli.tables import print_records

if TYPE_CHECKING:
    from tilewright.synth.fpga.route import RoutedPath

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
    add = adder(parser)
    text = f"{BLOCK} to place; without one, the committed records are shown"
    add("block BLOCK", text, nargs="?")
    add("--device D", "to place it on [ecp5-85k]; or ecp5-25k, ecp5-45k, nexus, gatemate")
    add("--speed-grade G", "speed grade of the device [the slowest]")
    add("--seed N", "random seed of the placement [1]")
    add("--clock CLOCK", "for placement to strive for [100MHz], also as 10000 (ps) or 10ns")
    add("--path", "show every cell on the longest path")
    add("--check", "run the block's bench on its mapped netlist, in place of placing it")
    add("--bitstream FILE", "write a bitstream: the block in a shell that needs four or five pins")
    add("--pins FILE", "constraints (LPF) of --bitstream for another board than the ULX3S")
    add("--update-records", "write the result into synth/records; without BLOCK, renew old records")


def run(args: argparse.Namespace) -> int:
    from tilewright.synth.fpga.devices import MissingNextpnrError

    if args.json and args.path:
        raise CommandError("--json has the path already")
    if args.pins and not args.bitstream:
        raise CommandError("--pins goes with --bitstream")
    try:
        if args.bitstream:
            return _write_bitstream(args)
        if args.check:
            return _check_netlist(args)
        return _place(args) if args.block else _show(args)
    except MissingNextpnrError as error:
        raise CommandError(str(error)) from error


def _place(args: argparse.Namespace) -> int:
    from tilewright.synth.fpga.devices import DEFAULT_DEVICE
    from tilewright.synth.fpga.record import fpga_record, fpga_table, store_placement
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
    show(fpga_table([record]))
    if args.path:
        _print_path(found.report.path)
    return 0


def _show(args: argparse.Namespace) -> int:
    from tilewright.synth.fpga.devices import find_device
    from tilewright.synth.fpga.record import FPGA, fpga_table, renew_records, stale_fpga_records
    from tilewright.synth.record import load_kind

    refuse(args, ("speed_grade", "seed", "clock", "path"), "goes with a BLOCK to place")
    if args.update_records:
        stale = stale_fpga_records()
        with progress("fpga", 2 * len(stale)) as tick:
            renew_records(stale, tick)
    device = find_device(args.device).name if args.device else None
    records = [r for r in load_kind(FPGA).values() if device in (None, r["device"])]
    print_json(records) if args.json else show(fpga_table(records))
    return 0


def _check_netlist(args: argparse.Namespace) -> int:
    """Run the bench and print the verdict; return the exit code."""
    from tilewright.synth.fpga.devices import DEFAULT_DEVICE
    from tilewright.verify.netlist import bench_fpga_netlist

    if not args.block:
        raise CommandError("--check goes with a BLOCK")
    of_placing = ("speed_grade", "seed", "clock", "path", "update_records")
    refuse(args, of_placing, "is of placing; --check places nothing")
    device = args.device or DEFAULT_DEVICE
    found = bench_fpga_netlist(args.block, device)
    words = "passes its bench" if found.passed else f"fails its bench: {found.failure}"
    data = {"block": args.block, "device": device, "passed": found.passed, "failure": found.failure}
    print_json(data) if args.json else print(f"{args.block} as cells of {device} {words}")
    return 0 if found.passed else 1


def _write_bitstream(args: argparse.Namespace) -> int:
    """Make the bitstream, write it and print what it is; return the exit code."""
    from tilewright.synth.fpga.bitstream import BOARD_MHZ, make_bitstream
    from tilewright.synth.fpga.devices import DEFAULT_DEVICE
    from tilewright.synth.fpga.route import DEFAULT_SEED

    if not args.block:
        raise CommandError("--bitstream goes with a BLOCK")
    refuse(args, ("path", "check", "update_records"), "goes without --bitstream")
    with progress("fpga", 2) as tick:
        found = make_bitstream(
            args.block,
            args.device or DEFAULT_DEVICE,
            speed_grade=args.speed_grade,
            seed=DEFAULT_SEED if args.seed is None else args.seed,
            clock_mhz=1e6 / args.clock if args.clock else BOARD_MHZ,
            constraints=_text(args.pins) if args.pins else None,
            watch=tick,
        )
    write_atomic(args.bitstream, found.data)
    data = {
        "block": found.spec,
        "device": found.device.name,
        "shell": found.shell.kind,
        "clock_mhz": found.clock_mhz,
        "routed_mhz": round(found.mhz, 2),
        "bytes": len(found.data),
        "file": args.bitstream,
        "pins": args.pins or found.shell.sites,
    }
    if args.json:
        print_json(data)
        return 0
    pins = ", ".join(f"{port} {site}" for port, site in found.shell.sites.items())
    print(
        f"{args.bitstream}: {found.spec} on {found.device.name} in a {found.shell.kind} shell,"
        f" {len(found.data):,} bytes, {found.mhz:.1f} MHz of {found.clock_mhz:g}"
    )
    print(f"pins: {args.pins or pins}")
    return 0


def _text(path: Path) -> str:
    try:
        return path.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise CommandError(f"{path}: {error}") from error


def _print_path(path: "RoutedPath") -> None:
    """Every cell on the longest path, with its delay and that of the wires after it."""
    print(
        f"\n{path.start} -> {path.end}: {path.delay_ns:.2f} ns,"
        f" {path.logic_ns:.2f} in cells and {path.routing_ns:.2f} on wires"
    )
    columns = {"CELL": "cell", "CELL NS": "logic_ns:.2f", "WIRES NS": "routing_ns:.2f"}
    print_records(path.steps, columns | {"SIGNAL": "signal"})
