"""``tilewright fpga BLOCK --bitstream FILE``: what configures an FPGA with the block."""

import argparse
from pathlib import Path

from tilewright.base.console import print_json, progress
from tilewright.base.errors import CommandError
from tilewright.base.files import write_atomic

__all__ = ["write_bitstream"]

_OF_TABLES = ("path", "csv", "check", "update_records")


def write_bitstream(args: argparse.Namespace) -> int:
    """Make the bitstream, write it and print what it is; return the exit code."""
    from tilewright.synth.fpga.bitstream import BOARD_MHZ, make_bitstream
    from tilewright.synth.fpga.devices import DEFAULT_DEVICE
    from tilewright.synth.fpga.route import DEFAULT_SEED

    if not args.block:
        raise CommandError("--bitstream goes with a BLOCK")
    for option in _OF_TABLES:
        if getattr(args, option):
            raise CommandError(f"--{option.replace('_', '-')} goes without --bitstream")
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


def _text(path: str) -> str:
    try:
        return Path(path).read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise CommandError(f"{path}: {error}") from error
