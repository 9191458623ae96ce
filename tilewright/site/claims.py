"""The papers' figures beside ours, claim by claim."""

from collections import Counter
from collections.abc import Iterable
from functools import cache
from typing import Any, TypeGuard

import numpy as np

from tilewright.claims import Cause, Claim, Value, claims_of_study
from tilewright.claims import facts as facts_of_paper
from tilewright.claims.scoreboard import (
    Result,
    Summary,
    class_counts,
    evaluate,
    headline,
    misses,
    summary,
)
from tilewright.sim.calibration import table as calibration
from tilewright.site.html import Column, Markup, Table, code, verdict
from tilewright.site.plots import scatter

__all__ = [
    *("TITLES", "by_class", "by_paper", "causes", "constants", "facts", "in_short", "off"),
    *("paper", "published_and_ours"),
]

TITLES = {"anda": "Anda", "deca": "DECA", "harmonia": "Harmonia", "sparamx": "SparAMX"}


@cache
def _results() -> dict[str, list[Result]]:
    return evaluate()


def _every() -> list[Result]:
    return [result for rows in _results().values() for result in rows]


def in_short() -> str:
    """How many predictions and measurements are within their tolerance."""
    return headline(Summary.of(_every()))


def by_class() -> Table:
    """Claims of each class, and how many are within tolerance."""
    columns: dict[str, Column] = {
        "Class": "name",
        "Evaluated": "evaluated",
        "Within tolerance": "within",
        "Duplicates left out": "duplicates",
    }
    return Table.of(class_counts(_every()), columns)


def by_paper() -> Table:
    """Claims of each paper, and how many are within tolerance."""
    columns: dict[str, Column] = {
        "Paper": lambda item: TITLES[item[0]],
        "Predictions and measurements": lambda item: item[1].evaluated,
        "Within tolerance": lambda item: item[1].within,
        "Other classes": lambda item: item[1].others,
        "Agree": lambda item: item[1].others_within,
        "Duplicates": lambda item: item[1].duplicates,
        "Not modelled": lambda item: item[1].not_modelled,
    }
    return Table.of(summary(_results()).items(), columns)


def published_and_ours() -> Markup:
    """Every positive figure; those that are off have names where there is room."""
    points = {
        TITLES[paper]: [
            ("" if r.good else r.id, float(r.published), float(r.ours))
            for r in rows
            if _positive(r.published) and _positive(r.ours)
        ]
        for paper, rows in _results().items()
    }
    return scatter(
        "Published figures and ours, whatever their unit; on the line they are equal",
        points,
        x_label="published",
        y_label="ours",
        diagonal=True,
    )


def _positive(value: object) -> TypeGuard[float]:
    return isinstance(value, int | float) and not isinstance(value, bool) and value > 0


def paper(name: str) -> Table:
    """Every claim of a paper with its verdict."""
    columns: dict[str, Column] = {
        "Claim": lambda r: code(r.id),
        "Class": lambda r: (r.claim_class or "") + (f", same as {r.same_as}" if r.same_as else ""),
        "Verdict": lambda r: verdict(r.good, r.verdict),
        "Published": lambda r: (
            _shown(r.published) if r.printed else f"derived: {_shown(r.published)}"
        ),
        "Ours": lambda r: _shown(r.ours),
        "Registers outside": lambda r: _shown(r.registers_outside),
        "Unit": "unit",
        "Off by": lambda r: r.deviation_text or None,
        "Allowed": "tolerance_text",
        "Place": "where",
        "Reason": "reason",
    }
    return Table.of(_results()[name], columns)


def causes() -> Table:
    """How many figures are off by each kind of cause."""
    counts = Counter(result.cause for result in misses(_every()))
    rows = [(str(cause), counts[cause]) for cause in Cause if counts[cause]]
    return Table(("Cause", "Figures"), rows)


def off(name: str) -> Table:
    """The claims of a paper that are off, and why."""
    columns: dict[str, Column] = {
        "Claim": lambda r: code(r.id),
        "Published": lambda r: f"{_shown(r.published)} {r.unit}".strip(),
        "Ours": lambda r: f"{_shown(r.ours)} {r.unit}".strip(),
        "Off by": lambda r: r.deviation_text or None,
        "Allowed": "tolerance_text",
        "Within from": "nearest",
        "Cause": lambda r: str(r.cause or "unknown"),
        "Reason": "reason",
    }
    return Table.of(misses(_results()[name]), columns)


def constants() -> Table:
    """Constants of the model that neither the RTL nor a parameter of a paper gives."""
    columns: dict[str, Column] = {
        "Constant": lambda item: code(item[0]),
        "Value": lambda item: item[1].value,
        "Unit": lambda item: item[1].unit,
        "Meaning": lambda item: item[1].meaning,
        "Source": lambda item: item[1].source,
        "Set for": lambda item: item[1].range,
        "Fitted to": lambda item: ", ".join(item[1].fitted_on),
    }
    return Table.of(calibration().items(), columns)


def facts(paper: str = "", *, study: str = "") -> Table:
    """Figures of a paper, or those that a study is compared with."""
    found: Iterable[Claim] = claims_of_study(study) if study else facts_of_paper(paper)
    columns: dict[str, Column] = {
        "Claim": lambda c: code(c.id),
        "Value": lambda c: _stated(c.value),
        "Unit": "unit",
        "Place": "where",
        "Note": "note",
    }
    return Table.of(found, columns)


def _stated(value: Value) -> str:
    match value:
        case dict():
            return ", ".join(f"{key} {_stated(part)}" for key, part in value.items())
        case list():
            return " to ".join(map(str, value))
    return _shown(value)


def _shown(value: Any) -> str:
    match value:
        case None:
            return "\N{EN DASH}"
        case bool() | np.bool_():
            return "yes" if value else "no"
        case list() | tuple():
            return ", ".join(map(_shown, value))
        case str():
            return value
    return f"{value:.4g}"
