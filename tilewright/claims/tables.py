"""Results of the scoreboard as tables, for the command line and the site."""

from collections.abc import Iterable, Mapping
from typing import Any

from tilewright.base.table import Column, Table, code, verdict
from tilewright.claims import Claim
from tilewright.claims.scoreboard import ClassCount, Result, Summary


def claim_table(results: Iterable[Result]) -> Table:
    """Every result with its verdict."""
    columns: dict[str, Column] = {
        "Claim": lambda r: code(r.id),
        "Class": lambda r: (r.claim_class or "-") + (f", same as {r.same_as}" if r.same_as else ""),
        "Verdict": lambda r: verdict(r.good, r.verdict),
        "Published": lambda r: ("" if r.printed else "derived: ") + shown(r.published),
        "Ours": lambda r: shown(r.ours),
        "Registers outside": lambda r: shown(r.registers_outside),
        "Unit": "unit",
        "Deviation": lambda r: r.deviation_text or "-",
        "Tolerance": "tolerance_text",
        "Place": "where",
        "Reason": "reason",
    }
    return Table.of(results, columns)


def miss_table(results: Iterable[Result]) -> Table:
    """Results that are off, from which value on each would be within tolerance, and why."""
    columns: dict[str, Column] = {
        "Claim": lambda r: code(r.id),
        "Class": "claim_class",
        "Published": lambda r: shown(r.published),
        "Ours": lambda r: shown(r.ours),
        "Unit": "unit",
        "Deviation": lambda r: r.deviation_text or "-",
        "Tolerance": "tolerance_text",
        "Within from": lambda r: shown(r.nearest),
        "Cause": lambda r: r.cause or "-",
        "Reason": "reason",
    }
    return Table.of(results, columns)


def summary_table(counts: Mapping[str, Summary]) -> Table:
    """Claims of each paper, and how many are within tolerance."""
    columns: dict[str, Column] = {
        "Paper": lambda item: item[0],
        "Predictions and measurements": lambda item: item[1].evaluated,
        "Within tolerance": lambda item: item[1].within,
        "Other classes": lambda item: item[1].others,
        "Agree": lambda item: item[1].others_within,
        "Duplicates": lambda item: item[1].duplicates,
        "Not modelled": lambda item: item[1].not_modelled,
    }
    return Table.of(counts.items(), columns)


def class_table(counts: Iterable[ClassCount]) -> Table:
    """Claims of each class, and how many are within tolerance."""
    columns: dict[str, Column] = {
        "Class": "name",
        "In the headline": "counted",
        "Evaluated": "evaluated",
        "Within tolerance": "within",
        "Duplicates": "duplicates",
    }
    return Table.of(counts, columns)


def fact_table(claims: Iterable[Claim]) -> Table:
    """Figures of a paper that the scoreboard does not compare."""
    columns: dict[str, Column] = {
        "Claim": lambda c: code(c.id),
        "Value": lambda c: shown(c.value),
        "Unit": "unit",
        "Place": "where",
        "Note": "note",
    }
    return Table.of(claims, columns)


def shown(value: Any) -> str:
    """A value as tables show it: four digits of a number."""
    match value:
        case None:
            return "-"
        case bool():
            return "yes" if value else "no"
        case str():
            return value
        case int():
            return str(value)
        case dict():
            return ", ".join(f"{key} {shown(part)}" for key, part in value.items())
        case list() | tuple():
            return ", ".join(map(shown, value))
    return f"{value:.4g}"
