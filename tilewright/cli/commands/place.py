"""``tilewright place``: a block's cells placed in rows, and what its wires cost."""

import argparse
from collections.abc import Sequence
from typing import Any

from tilewright.base.console import print_csv, print_json, print_table, progress
from tilewright.base.errors import CommandError

NAME = "place"
HELP = "place a block's cells, an estimate before routing: die, wires, delay and energy with them"
EXAMPLE = "tilewright place --tech asap7"
MORE_EXAMPLES = (
    "tilewright place popcount:odd",
    "tilewright place anda_apu --goal fastest",
)
_COLUMNS = {  # metric -> heading and digits
    "cells": ("CELLS", 0),
    "die_area": ("DIE UM2", 1),
    "wire_length": ("WIRES UM", 0),
    "delay_before": ("NO WIRES PS", 1),
    "delay_placed": ("PLACED PS", 1),
    "delay": ("REPAIRED PS", 1),
    "buffers": ("BUFFERS", 0),
    "clock_skew": ("SKEW PS", 1),
    "congestion_worst": ("WORST TILE", 2),
    "energy_before": ("FJ/MAC", 1),
    "energy": ("PLACED FJ/MAC", 1),
}


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.epilog = "\n  ".join(["examples:", EXAMPLE, *MORE_EXAMPLES])
    text = "NAME[:PRESET][,FIELD=VALUE]... to place; without one, the committed records are shown"
    parser.add_argument("block", nargs="?", metavar="BLOCK", help=text)
    parser.add_argument("--tech", metavar="T", help="asap7 or sky130hd [asap7; of records, both]")
    text = "goal of synthesis [area]"
    parser.add_argument("--goal", choices=("area", "balanced", "fastest"), help=text)
    text = "share of the rows that cells fill [0.7]"
    parser.add_argument("--utilisation", metavar="U", type=float, help=text)
    parser.add_argument("--csv", action="store_true", help="print the table as CSV")
    text = "write the result into synth/records; without BLOCK, renew every old record"
    parser.add_argument("--update-records", action="store_true", help=text)


def run(args: argparse.Namespace) -> int:
    if args.json and args.csv:
        raise CommandError("--json is no CSV")
    return _place(args) if args.block else _show(args)


def _place(args: argparse.Namespace) -> int:
    from tilewright.studies.synthesis import place_and_measure, store_placed
    from tilewright.synth.flow import DEFAULT_GOAL, Goal

    if args.update_records and args.utilisation is not None:
        raise CommandError("records are of the default utilisation")
    goal = Goal(args.goal) if args.goal else DEFAULT_GOAL
    with progress("place", 4) as tick:
        placed, record = place_and_measure(
            args.block, args.tech or "asap7", goal=goal, utilisation=args.utilisation, watch=tick
        )
    if args.update_records:
        store_placed(placed, record)
    print_json([record]) if args.json else _print([record], as_csv=args.csv)
    return 0


def _show(args: argparse.Namespace) -> int:
    from tilewright.studies.synthesis import renew_placed
    from tilewright.synth.place.record import PLACED, stale_placed_records
    from tilewright.synth.record import load_kind
    from tilewright.synth.technology import load_technology

    for option in ("goal", "utilisation"):
        if getattr(args, option) is not None:
            raise CommandError(f"--{option} goes with a BLOCK to place")
    if args.update_records:
        stale = stale_placed_records()
        with progress("place", 4 * len(stale)) as tick:
            renew_placed(stale, tick)
    technology = load_technology(args.tech).name if args.tech else None
    records = [r for r in load_kind(PLACED).values() if technology in (None, r["technology"])]
    print_json(records) if args.json else _print(records, as_csv=args.csv)
    return 0


def _print(records: Sequence[dict[str, Any]], *, as_csv: bool) -> None:
    """One row for each block, technology and goal."""
    header = ["BLOCK", "TECH", "GOAL", *(heading for heading, _ in _COLUMNS.values())]
    rows = []
    for record in records:
        row = [record["spec"], record["technology"], record["goal"]]
        for name, (_, digits) in _COLUMNS.items():
            metric = record["metrics"].get(name)
            row.append("" if metric is None else f"{metric['value']:.{digits}f}")
        rows.append(row)
    print_csv(header, rows) if as_csv else print_table(header, rows)
