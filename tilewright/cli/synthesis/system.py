"""``tilewright synth --system``: the area of each part of a whole accelerator, or its clock."""

import argparse
from collections.abc import Sequence
from typing import Any

from tilewright.base.console import print_json, print_table, progress
from tilewright.base.errors import CommandError
from tilewright.cli.synthesis.technologies import technologies_of
from tilewright.studies.synthesis import store_system, store_system_clock
from tilewright.synth.jobs import system_areas
from tilewright.synth.system_clock import clock_record

__all__ = ["map_system"]

_NOT_FOR_SYSTEMS = {
    "--goal": "goal",
    "--parts": "parts",
    "--hierarchy": "hierarchy",
    "--output": "output",
    "--netlist": "netlist",
    "--path": "path",
    "--all": "all",
    "--stale": "stale",
    "--energy": "energy",
    "--prove": "prove",
}


def map_system(args: argparse.Namespace) -> int:
    """Map every module of an accelerator by itself, for the area of each part or for the clock."""
    if args.block is None:
        raise CommandError("--system needs one BLOCK")
    for option, name in _NOT_FOR_SYSTEMS.items():
        if getattr(args, name):
            raise CommandError(f"--system does not go with {option}")
    if not args.gating:
        raise CommandError("--system does not go with --no-gating")
    return _time_system(args) if args.clock is not None else _measure_areas(args)


def _measure_areas(args: argparse.Namespace) -> int:
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


def _time_system(args: argparse.Namespace) -> int:
    technologies = technologies_of(args)
    records = []
    with progress("clock of the whole", len(technologies)) as tick:
        for technology in technologies:
            records.append(clock_record(args.block, technology, args.clock))
            if args.update_records:
                store_system_clock(args.block, technology, records[-1])
            tick(technology.name)
    print_json(records) if args.json else _print_clocks(records)
    return 0


def _print_system(records: Sequence[dict[str, Any]]) -> None:
    rows = [
        [r["technology"], name or "(itself)", f"{a['logic']:.0f}", f"{a['memory']:.0f}"]
        for r in records
        for name, a in r["parts"].items()
    ]
    print_table(["TECHNOLOGY", "PART", "LOGIC UM2", "MEMORY UM2"], rows)


def _print_clocks(records: Sequence[dict[str, Any]]) -> None:
    rows = [
        [r["technology"], name or "(itself)", f"{ps:.0f}"]
        for r in records
        for name, ps in r["parts_ps"].items()
    ]
    print_table(["TECHNOLOGY", "PATHS THAT END IN", "LONGEST PS"], rows)
    for r in records:
        verdict = "meets" if r["period_ps"] <= r["wanted_ps"] else "misses"
        print(
            f"{r['technology']}, goal {r['goal']}: {r['period_ps']:.0f} ps,"
            f" {1e6 / r['period_ps']:.0f} MHz, {verdict} {r['wanted_ps']:.0f} ps;"
            f" {r['cells']:,} cells, from {r['longest_path']['start']}"
            f" to {r['longest_path']['end']}, without wires"
        )
