"""What ``tilewright place`` prints of placed blocks."""

from collections.abc import Sequence
from typing import Any

from tilewright.base.console import print_csv, print_table

__all__ = ["print_placed"]

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


def print_placed(records: Sequence[dict[str, Any]], *, as_csv: bool) -> None:
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
