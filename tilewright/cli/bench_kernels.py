"""What ``tilewright kernels bench`` does and prints: layers on this machine."""

import argparse
import json
from pathlib import Path
from typing import Any

from tilewright.base.console import print_json, print_table, progress
from tilewright.base.errors import CommandError

__all__ = ["DEFAULT_RECORD", "measure_layers"]

DEFAULT_RECORD = Path("out/kernels.json")


def measure_layers(args: argparse.Namespace) -> int:
    """All sections of the bench, or some into a record that has the others."""
    from tilewright.base.files import write_atomic
    from tilewright.kernels.bench import SECTIONS, run, steps
    from tilewright.kernels.plan import full_plan, quick_plan

    plan = quick_plan() if args.quick else full_plan()
    output = args.output or DEFAULT_RECORD
    only = tuple(args.only.split(",")) if args.only else SECTIONS
    unknown = [name for name in only if name not in SECTIONS]
    if unknown:
        raise CommandError(f"no section {unknown[0]!r}: there are {', '.join(SECTIONS)}")
    before = None
    if args.only and output.exists():
        try:
            before = json.loads(output.read_text())
        except json.JSONDecodeError as error:
            raise CommandError(f"{output} is no record: {error}") from error
    output.parent.mkdir(parents=True, exist_ok=True)
    part = output.with_suffix(".part.json")  # what there is, should the run be cut off

    def keep(record: dict[str, Any]) -> None:
        write_atomic(part, json.dumps(record, indent=1) + "\n")

    with progress("kernels", steps(plan, only)) as tick:
        try:
            record = run(plan, tick, keep, only=only, before=before)
        except ValueError as error:
            raise CommandError(str(error)) from error
    write_atomic(output, json.dumps(record, indent=1) + "\n")
    part.unlink(missing_ok=True)
    if args.json:
        print_json(record)
        return 0
    if "layers" in record:
        print_layers(record)
    print(f"record: {output}")
    return 0


def print_layers(record: dict[str, Any]) -> None:
    """Time, bandwidth as a share of what reading alone gets, and speed against stock PyTorch."""
    from tilewright.kernels.records import layer_summary

    print_table(
        ("LAYER", "BATCH", "KERNEL", "US", "GB/S", "% OF READ", "X STOCK"),
        [
            (
                row.layer,
                row.batch,
                row.kernel,
                f"{1e6 * row.seconds:.1f}",
                f"{row.bytes_per_second / 1e9:.1f}",
                f"{100 * row.share_of_read:.0f}",
                "" if row.over_stock is None else f"{row.over_stock:.2f}",
            )
            for row in layer_summary(record)
        ],
    )
