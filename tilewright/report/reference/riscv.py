"""The table of GEMMs that a RISC-V processor started, from their record."""

from tilewright.report.reference.declarations import markdown_table
from tilewright.studies.measured import load_measured
from tilewright.studies.riscv.record import RECORD

__all__ = ["riscv_table"]


def riscv_table() -> str:
    """One row for each run: cycles of accelerator, driver and processor."""
    record = load_measured(RECORD)
    if record is None:
        return "No run is on record."
    header = ["block", "program from", "GEMM", "accelerator", "cycle model", "driver", "processor"]
    rows = [
        [
            f"`{run['block']}`",
            "memory" if run["stream"] else "processor",
            f"{run['tokens']} x {run['inputs']} x {run['outputs']}",
            f"{sum(run['program_cycles']):,}",
            f"{sum(run['golden_cycles']):,}",
            f"{run['driver_cycles']:,}",
            f"{run['total_cycles']:,}",
        ]
        for run in record["runs"]
    ]
    return markdown_table(header, rows)
