"""Published figures beside those of the performance model, claim by claim."""

import json
from collections.abc import Sequence
from typing import Any

import numpy as np

from tilewright.report.html import Markup, code, figure, join, note, paragraph, section, table
from tilewright.report.html import verdict as coloured
from tilewright.report.page import Context, Page
from tilewright.report.plots import scatter
from tilewright.sim.calibration import table as calibration
from tilewright.sim.scoreboard import (
    NOT_MODELLED,
    REPRODUCED,
    VERDICTS,
    Result,
    evaluate,
    kinds,
    papers,
    summary,
)

TITLE = "Scoreboard"
POSITION = 5

_OTHERS = [verdict.capitalize() for verdict in VERDICTS if verdict != REPRODUCED]


def build(context: Context) -> Page:
    results: dict[str, list[Result]] = {}
    for paper in context.track("scoreboard", papers()):
        results |= evaluate([paper])
    counts = summary(results)
    good = sum(count[REPRODUCED] for count in counts.values())
    answered = sum(sum(count.values()) - count[NOT_MODELLED] for count in counts.values())
    fitted = kinds(r for rows in results.values() for r in rows)["fitted"]
    body = join(
        [
            _summary(results),
            _drawing(results),
            *(_paper(paper, rows) for paper, rows in results.items()),
            _constants(),
        ]
    )
    data = {
        "summary": counts,
        "claims": {paper: [r.as_dict() for r in rows] for paper, rows in results.items()},
        "constants": calibration(),
    }
    return Page(
        summary=f"{good} of {answered} published figures reproduced, {fitted} of them fitted;"
        " those that are off say why.",
        body=body,
        data=json.loads(json.dumps(data, default=_plain)),
    )


def _plain(value: Any) -> Any:
    """Numbers and arrays of numpy as JSON has them."""
    return value.tolist() if isinstance(value, np.ndarray | np.generic) else str(value)


def _summary(results: dict[str, list[Result]]) -> Markup:
    rows = []
    for paper, count in summary(results).items():
        good, *others = count.values()
        _, fitted, bounds = kinds(results[paper]).values()
        rows.append((paper, good, fitted, bounds, *others, sum(count.values())))
    return section(
        "In short",
        paragraph(
            "Every figure of the papers that the performance model can answer, evaluated while"
            " this page was built. A figure is reproduced when it lies within the tolerance that"
            " was stated for it beforehand; what is off, or not modelled, says why. To some of"
            " those reproduced, a constant of the model was fitted; others are bounds (at least,"
            " at most) or statements that hold, which is less than meeting a figure."
        ),
        table(
            ("Paper", "Reproduced", "of these fitted", "of these bounds", *_OTHERS, "Claims"), rows
        ),
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


def _positive(value: Any) -> bool:
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
                    _deviation(r),
                    r.tolerance,
                    r.where,
                    r.reason,
                )
                for r in rows
            ],
        ),
        note("Paper's figures:", code(f"sim/claims/{paper}_system.toml")),
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


def _deviation(r: Result) -> str:
    if r.deviation is None:
        return "\N{EN DASH}"
    absolute = r.tolerance.replace(".", "").isdigit()
    return f"{r.deviation:+.2f}{'' if absolute else '%'}"


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
                    entry["value"],
                    entry["unit"],
                    entry["meaning"],
                    entry["source"],
                    ", ".join(entry.get("fitted_on", ())),
                )
                for name, entry in calibration().items()
            ],
        ),
        note("Source:", code("sim/calibration.toml")),
    )
