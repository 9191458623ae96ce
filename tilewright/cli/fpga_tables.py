"""What ``tilewright fpga`` prints of blocks on FPGAs."""

from collections.abc import Sequence
from typing import Any

from tilewright.base.console import print_csv, print_table
from tilewright.synth.fpga.report import RoutedPath

__all__ = ["print_fpga_path", "print_fpga_records"]

_COLUMNS = {  # metric -> heading
    "luts": "LUTS",
    "carries": "CARRY",
    "registers": "REGISTERS",
    "block_rams": "BLOCK RAM",
    "lut_rams": "LUT RAM",
    "multipliers": "DSP",
}


def print_fpga_records(records: Sequence[dict[str, Any]], *, as_csv: bool) -> None:
    """One row for each block and device, with both ends of its longest path."""
    header = ["BLOCK", "DEVICE", "GRADE", *_COLUMNS.values(), "DEVICE %", "MHZ", "LONGEST PATH"]
    rows = []
    for record in records:
        value = {name: metric["value"] for name, metric in record["metrics"].items()}
        row = [record["spec"], record["device"], record["speed_grade"]["name"]]
        row += [value[name] for name in _COLUMNS]
        row += [f"{100 * value['utilisation']:.1f}", f"{value['frequency']:.1f}"]
        path = record["longest_path"]
        rows.append([*row, f"{path['start']} -> {path['end']}"])
    print_csv(header, rows) if as_csv else print_table(header, rows)


def print_fpga_path(path: RoutedPath) -> None:
    """Every cell on the longest path, with its delay and that of the wires behind it."""
    print(
        f"\n{path.start} -> {path.end}: {path.delay_ns:.2f} ns,"
        f" {path.logic_ns:.2f} in cells and {path.routing_ns:.2f} on wires"
    )
    rows = [(s.cell, f"{s.logic_ns:.2f}", f"{s.routing_ns:.2f}", s.signal) for s in path.steps]
    print_table(("CELL", "CELL NS", "WIRES NS", "SIGNAL"), rows)
