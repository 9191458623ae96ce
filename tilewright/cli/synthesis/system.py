"""``tilewright synth --system``: the area of each part of a whole accelerator."""

import argparse
from collections.abc import Sequence
from typing import Any

from tilewright.base.console import print_json, print_table, progress
from tilewright.base.errors import CommandError
from tilewright.cli.synthesis.technologies import technologies_of
from tilewright.studies.synthesis import store_system
from tilewright.synth.jobs import system_areas

__all__ = ["map_system"]


def map_system(args: argparse.Namespace) -> int:
    """Map every module of an accelerator by itself, for the area of each part."""
    if args.block is None:
        raise CommandError("--system needs one BLOCK")
    technologies = technologies_of(args)
    records = []
    with progress("area by part", len(technologies)) as tick:
        for technology, record in system_areas(args.block, technologies):
            records.append(record)
            if args.update_records:
                store_system(args.block, technology, record)
            tick(technology.name)
    print_json(records) if args.json else _print_system(records)
    return 0


def _print_system(records: Sequence[dict[str, Any]]) -> None:
    rows = [
        [r["technology"], name or "(itself)", f"{a['logic']:.0f}", f"{a['memory']:.0f}"]
        for r in records
        for name, a in r["parts"].items()
    ]
    print_table(["TECHNOLOGY", "PART", "LOGIC UM2", "MEMORY UM2"], rows)
