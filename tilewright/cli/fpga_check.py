"""``tilewright fpga BLOCK --check``: the block's bench on its netlist for an FPGA."""

import argparse

from tilewright.base.console import print_json
from tilewright.base.errors import CommandError

__all__ = ["check_netlist"]

_OF_PLACING = ("speed_grade", "seed", "clock", "path", "csv", "update_records")


def check_netlist(args: argparse.Namespace) -> int:
    """Run the bench and print the verdict; return the exit code."""
    from tilewright.synth.fpga.devices import DEFAULT_DEVICE
    from tilewright.verify.fpga_netlist import bench_fpga_netlist

    if not args.block:
        raise CommandError("--check goes with a BLOCK")
    for option in _OF_PLACING:
        if getattr(args, option) not in (None, False):
            raise CommandError(
                f"--{option.replace('_', '-')} is of placing; --check places nothing"
            )
    device = args.device or DEFAULT_DEVICE
    found = bench_fpga_netlist(args.block, device)
    words = "passes its bench" if found.passed else f"fails its bench: {found.failure}"
    data = {"block": args.block, "device": device, "passed": found.passed, "failure": found.failure}
    print_json(data) if args.json else print(f"{args.block} as cells of {device} {words}")
    return 0 if found.passed else 1
