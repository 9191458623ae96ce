"""The scoreboard as rows of text: claim by claim, by paper and by class."""

from collections.abc import Iterable, Sequence

from tilewright.sim.claims.classes import COUNTED
from tilewright.sim.classes import ClassCount, Summary
from tilewright.sim.coverage import Coverage
from tilewright.sim.scoreboard import Result
from tilewright.sim.what_if import Change, Moved

__all__ = [
    *("Table", "claim_table", "class_table", "coverage_table"),
    *("moved_table", "shown_value", "summary_table", "what_if_table"),
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
            r.id,
            r.where,
            shown_value(r.published) if r.printed else f"derived: {shown_value(r.published)}",
            shown_value(r.ours),
            shown_value(r.registers_outside),
            r.unit,
            r.deviation_text or "-",
            r.tolerance_text,
            (r.claim_class or "-") + (f", same as {r.same_as}" if r.same_as else ""),
            r.verdict + (f": {r.reason}" if r.reason else ""),
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
        (
            *(paper, count.evaluated, count.within),
            *(count.others, count.others_within, count.duplicates, count.not_modelled),
        )
        for paper, count in counts.items()
    ]


def what_if_table(changes: Iterable[Change]) -> Table:
    """Show one claim whose verdict changes a row."""
    return ("CLAIM", "CLASS", "BEFORE", "AFTER"), [
        (c.claim, c.claim_class or "-", c.before, c.after) for c in changes
    ]


def moved_table(rows: Iterable[Moved]) -> Table:
    """Show one claim a row: what 10% more of each of our measured inputs changes."""
    return ("CLAIM", "MOVED BY"), [
        (
            row.claim,
            ", ".join(
                f"{name} {'turns it' if change is None else f'{change:+.2g}%'}"
                for name, change in row.change_percent_by_input.items()
            )
            or "nothing of ours",
        )
        for row in rows
    ]


def class_table(counts: Iterable[ClassCount]) -> Table:
    """Show one class a row."""
    return ("CLASS", "IN THE HEADLINE", "EVALUATED", "WITHIN TOLERANCE", "DUPLICATES"), [
        (
            count.claim_class,
            "yes" if count.claim_class in COUNTED else "no",
            count.evaluated,
            count.within,
            count.duplicates,
        )
        for count in counts
    ]


def coverage_table(counts: Iterable[Coverage]) -> Table:
    """Show one paper a row, and all of them."""
    header = ("PAPER", "CLAIMS", "SET-UP", "CAN BE", "EVALUATED", "OF THESE", "CANNOT")
    return header, [
        (
            *(c.name, c.claims, c.set_up, c.can_be, c.evaluated),
            *(f"{c.evaluated_percent:.0f}%", c.cannot),
        )
        for c in counts
    ]


def shown_value(value: object) -> str:
    """Return a value of a claim as tables show it, four digits of a number."""
    if value is None:
        return "-"
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, dict):
        return ", ".join(f"{name} {shown_value(part)}" for name, part in value.items())
    if isinstance(value, list):
        return " .. ".join(shown_value(part) for part in value)
    return f"{value:.4g}" if isinstance(value, float) else str(value)
