"""How good the performance model is, as rows of text; docs/model.md has some of these tables."""

from collections.abc import Iterable

from tilewright.cli.claim_tables import Table
from tilewright.sim.program_residuals import LayerResidual, ProductResidual
from tilewright.sim.scoreboard import Residual, Sensitivity

__all__ = ["layer_table", "program_table", "residual_table", "sensitivity_table"]


def residual_table(rows: Iterable[Residual]) -> Table:
    """Show one table of the papers a row."""
    return ("TABLE", "FITTED", "MEAN", "OTHERS", "MEAN OF OTHERS", "LARGEST", "UNIT"), [
        (
            r.table,
            r.fitted,
            _rounded(r.fitted_mean),
            r.others,
            _rounded(r.others_mean),
            _rounded(r.largest),
            "%" if r.unit == "percent" else r.unit,
        )
        for r in rows
    ]


def sensitivity_table(rows: Iterable[Sensitivity]) -> Table:
    """Show one constant a row."""
    return ("CONSTANT", "MOVES MOST", "BY"), [
        (s.constant, s.figure, f"{s.change_percent:+.1f}%") for s in rows
    ]


def program_table(rows: Iterable[ProductResidual]) -> Table:
    """Show one system, prompt and memory port a row."""
    header = (
        *("SYSTEM", "TOKENS", "PORT", "PROGRAMS, MILLION CYCLES"),
        *("FORMULA FOR THIS PORT", "PROGRAMS OVER THE FORMULA AT 256 GB/S"),
    )
    return header, [
        (
            r.system,
            r.tokens,
            f"{r.memory_channels} x {r.line_bytes} bytes, {r.outstanding_lines} lines",
            f"{r.program_cycles / 1e6:.3f}",
            f"{r.formula_deviation_percent:+.1f}%",
            f"{r.programs_over_formula:.2f}",
        )
        for r in rows
    ]


def layer_table(rows: Iterable[LayerResidual]) -> Table:
    """Show one accelerator and kind of step a row."""
    header = (
        *("BLOCK", "STEP", "BATCH", "CONTEXT", "FROM", "ONE LAYER, MILLION CYCLES"),
        *("BOUND", "PROGRAMS OVER THE BOUND", "ATTENTION ALONE"),
    )
    return header, [
        (
            r.block,
            r.phase,
            r.batch,
            r.context,
            r.kind,
            f"{r.program_cycles / 1e6:.3f}",
            f"{r.bound_cycles / 1e6:.3f}",
            f"{r.programs_over_bound:.2f}",
            f"{r.attention_over_bound:.2f}",
        )
        for r in rows
    ]


def _rounded(value: float | None) -> str:
    return "-" if value is None else f"{value:.2f}"
