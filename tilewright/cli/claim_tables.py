"""The results of ``tilewright claims`` as rows of text; docs/model.md has some of these tables."""

from collections.abc import Iterable, Sequence

from tilewright.sim.programs import ProgramResidual
from tilewright.sim.scoreboard import Residual, Result, Sensitivity, Summary

__all__ = ["Table", "claim_table", "program_table", "residual_table", "sensitivity_table"]

Table = tuple[Sequence[str], list[Sequence[object]]]  # header, rows


def claim_table(results: Iterable[Result]) -> Table:
    """Show one claim a row; a star marks figures that a constant was fitted to."""
    header = ("CLAIM", "WHERE", "PUBLISHED", "OURS", "UNIT", "DEVIATION", "TOLERANCE", "VERDICT")
    return header, [
        (
            r.id + (" *" if r.fitted else ""),
            r.where,
            _text(r.published),
            _text(r.ours),
            r.unit,
            r.deviation_text or "-",
            r.tolerance_text,
            r.verdict + (f": {r.reason}" if r.reason else ""),
        )
        for r in results
    ]


def summary_table(counts: dict[str, Summary]) -> Table:
    """Show one paper a row."""
    return ("PAPER", "REPRODUCED", "OFF", "NOT MODELLED", "REPRODUCED ARE"), [
        (
            paper,
            count.reproduced,
            count.off,
            count.not_modelled,
            f"{count.reproduced_figures} figures, {count.reproduced_fitted} fitted,"
            f" {count.reproduced_bounds} bounds",
        )
        for paper, count in counts.items()
    ]


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


def program_table(rows: Iterable[ProgramResidual]) -> Table:
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


def _rounded(value: float | None) -> str:
    return "-" if value is None else f"{value:.2f}"


def _text(value: object) -> str:
    if value is None:
        return "-"
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, list):
        return " .. ".join(_text(part) for part in value)
    return f"{value:.4g}" if isinstance(value, float) else str(value)
