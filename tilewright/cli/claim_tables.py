"""The scoreboard and the quality of the performance model as rows of text."""

from collections.abc import Iterable, Sequence

from tilewright.claims.scoreboard import ClassCount, Result, Summary
from tilewright.sim.program_residuals import LayerResidual, ProductResidual
from tilewright.studies.model_fit import Residual, Sensitivity

__all__ = [
    *("Table", "claim_table", "class_table", "layer_table", "miss_table", "program_table"),
    *("residual_table", "sensitivity_table", "summary_table"),
]

Table = tuple[Sequence[str], list[Sequence[object]]]  # header, rows


def claim_table(results: Iterable[Result]) -> Table:
    """Show one claim a row."""
    header = (
        *("CLAIM", "WHERE", "PUBLISHED", "OURS", "REGISTERS OUTSIDE", "UNIT"),
        *("DEVIATION", "TOLERANCE", "CLASS", "VERDICT"),
    )
    return header, [
        (
            *(r.id, r.where, ("" if r.printed else "derived: ") + _shown(r.published)),
            *(_shown(r.ours), _shown(r.registers_outside), r.unit),
            *(r.deviation_text or "-", r.tolerance_text),
            (r.claim_class or "-") + (f", same as {r.same_as}" if r.same_as else ""),
            r.verdict + (f": {r.reason}" if r.reason else ""),
        )
        for r in results
    ]


def miss_table(results: Iterable[Result]) -> Table:
    """Show one claim that is off a row."""
    header = (
        *("CLAIM", "CLASS", "PUBLISHED", "OURS", "UNIT"),
        *("DEVIATION", "TOLERANCE", "WITHIN FROM", "CAUSE", "REASON"),
    )
    return header, [
        (
            *(r.id, r.claim_class, _shown(r.published), _shown(r.ours), r.unit),
            *(r.deviation_text or "-", r.tolerance_text, _shown(r.nearest)),
            *(r.cause or "-", r.reason),
        )
        for r in results
    ]


def summary_table(counts: dict[str, Summary]) -> Table:
    """Show one paper a row."""
    header = (
        *("PAPER", "PREDICTIONS AND MEASUREMENTS", "WITHIN TOLERANCE"),
        *("OTHER CLASSES", "AGREE", "DUPLICATES", "NOT MODELLED"),
    )
    return header, [
        (p, c.evaluated, c.within, c.others, c.others_within, c.duplicates, c.not_modelled)
        for p, c in counts.items()
    ]


def class_table(counts: Iterable[ClassCount]) -> Table:
    """Show one class a row."""
    return ("CLASS", "IN THE HEADLINE", "EVALUATED", "WITHIN TOLERANCE", "DUPLICATES"), [
        (c.name, "yes" if c.counted else "no", c.evaluated, c.within, c.duplicates) for c in counts
    ]


def residual_table(rows: Iterable[Residual]) -> Table:
    """Show one table of the papers a row."""
    return ("TABLE", "FITTED", "MEAN", "OTHERS", "MEAN OF OTHERS", "LARGEST", "UNIT"), [
        (
            *(r.table, r.fitted, _rounded(r.fitted_mean), r.others, _rounded(r.others_mean)),
            *(_rounded(r.largest), r.unit.replace("percent", "%")),
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
    port = "{0.memory_channels} x {0.line_bytes} bytes, {0.outstanding_lines} lines"
    return header, [
        (
            *(r.system, r.tokens, port.format(r), f"{r.program_cycles / 1e6:.3f}"),
            *(f"{r.formula_deviation_percent:+.1f}%", f"{r.programs_over_formula:.2f}"),
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
            *(r.block, r.phase, r.batch, r.context, r.kind),
            *(f"{cycles / 1e6:.3f}" for cycles in (r.program_cycles, r.bound_cycles)),
            *(_rounded(r.programs_over_bound), _rounded(r.attention_over_bound)),
        )
        for r in rows
    ]


def _shown(value: object) -> str:
    """Return a value of a claim as tables show it, four digits of a number."""
    if isinstance(value, list):
        return " .. ".join(_shown(part) for part in value)
    if value is None:
        return "-"
    if isinstance(value, bool):
        return "true" if value else "false"
    return f"{value:.4g}" if isinstance(value, float) else str(value)


def _rounded(value: float | None) -> str:
    return "-" if value is None else f"{value:.2f}"
