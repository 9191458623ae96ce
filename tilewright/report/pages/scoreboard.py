"""Published figures beside those of the performance model, claim by claim."""

import json
from collections.abc import Sequence
from dataclasses import asdict
from typing import Any, TypeGuard

import numpy as np

from tilewright.report.html import Markup, code, figure, join, note, paragraph, section, table
from tilewright.report.html import verdict as coloured
from tilewright.report.page import Context, Page
from tilewright.report.plots import scatter
from tilewright.sim.calibration import table as calibration
from tilewright.sim.claims import papers
from tilewright.sim.scoreboard import REPRODUCED, Result, Summary, evaluate, summary

TITLE = "Scoreboard"
POSITION = 5


def build(context: Context) -> Page:
    results: dict[str, list[Result]] = {}
    for paper in context.track("scoreboard", papers()):
        results |= evaluate([paper])
    counts = summary(results)
    total = Summary.of(r for rows in results.values() for r in rows)
    body = join(
        [
            _summary(counts),
            _drawing(results),
            *(_paper(paper, rows) for paper, rows in results.items()),
            _constants(),
        ]
    )
    data = {
        "summary": {paper: asdict(count) for paper, count in counts.items()},
        "claims": {paper: [r.as_dict() for r in rows] for paper, rows in results.items()},
        "constants": {name: asdict(entry) for name, entry in calibration().items()},
    }
    return Page(
        summary=f"{total.reproduced} of {total.evaluated} published figures reproduced,"
        f" {total.reproduced_fitted} of them fitted; those that are off say why.",
        body=body,
        data=json.loads(json.dumps(data, default=_plain)),
    )


def _plain(value: Any) -> Any:
    """Numbers and arrays of numpy as JSON has them."""
    return value.tolist() if isinstance(value, np.ndarray | np.generic) else str(value)


def _summary(counts: dict[str, Summary]) -> Markup:
    header = ("Paper", "Reproduced", "of these fitted", "of these bounds", "Off", "Not modelled")
    rows = [
        (
            paper,
            count.reproduced,
            count.reproduced_fitted,
            count.reproduced_bounds,
            count.off,
            count.not_modelled,
            count.claims,
        )
        for paper, count in counts.items()
    ]
    return section(
        "In short",
        paragraph(
            "Every figure of the papers that the performance model can answer, evaluated while"
            " this page was built. A figure is reproduced when it lies within the tolerance that"
            " was stated for it beforehand; what is off, or not modelled, says why. To some of"
            " those reproduced, a constant of the model was fitted; others are bounds (at least,"
            " at most) or statements that hold, which is less than meeting a figure."
        ),
        table((*header, "Claims"), rows),
    )


def _drawing(results: dict[str, list[Result]]) -> Markup:
    points = {
        paper: [
            ("" if r.verdict == REPRODUCED else r.id, float(r.published), float(r.ours))
            for r in rows
            if _positive(r.published) and _positive(r.ours)
        ]
        for paper, rows in results.items()
    }
    drawing = scatter(
        "scoreboard",
        {paper: found for paper, found in points.items() if found},
        x_label="published",
        y_label="ours",
        diagonal=True,
    )
    return figure(
        drawing,
        "Every positive figure, whatever its unit; names of those that are off, where there is"
        " room. On the line the two are equal. Both axes logarithmic.",
    )


def _positive(value: object) -> TypeGuard[float]:
    return isinstance(value, int | float) and not isinstance(value, bool) and value > 0


def _paper(paper: str, rows: Sequence[Result]) -> Markup:
    return section(
        f"{paper}: claim by claim",
        table(
            ("Claim", "Verdict", "Published", "Ours", "Unit", "Off by", "Allowed", "Place", "Why"),
            [
                (
                    code(r.id),
                    coloured(
                        r.verdict == REPRODUCED, f"{r.verdict}{', fitted' if r.fitted else ''}"
                    ),
                    _shown(r.published),
                    _shown(r.ours),
                    r.unit,
                    r.deviation_text or "\N{EN DASH}",
                    r.tolerance_text,
                    r.where,
                    r.reason,
                )
                for r in rows
            ],
        ),
        note("Paper's figures:", code(f"sim/claims/{paper}.toml")),
    )


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
        case _:
            return f"{value:.4g}"


def _constants() -> Markup:
    return section(
        "Constants of the model",
        paragraph(
            "What neither the RTL nor a parameter of a paper gives. A constant that was fitted"
            " names the figures it was fitted to; those are marked above."
        ),
        table(
            ("Constant", "Value", "Unit", "Meaning", "Source", "Fitted to"),
            [
                (
                    code(name),
                    entry.value,
                    entry.unit,
                    entry.meaning,
                    entry.source,
                    ", ".join(entry.fitted_on),
                )
                for name, entry in calibration().items()
            ],
        ),
        note("Source:", code("sim/calibration.toml")),
    )
