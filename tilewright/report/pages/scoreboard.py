"""Published figures beside those of the performance model, claim by claim."""

import json
from collections.abc import Sequence
from dataclasses import asdict
from typing import Any, TypeGuard

import numpy as np

from tilewright.claims import papers
from tilewright.claims.scoreboard import Result, Summary, class_counts, evaluate, headline, summary
from tilewright.report.html import Markup, code, figure, join, note, paragraph, section, table
from tilewright.report.html import verdict as coloured
from tilewright.report.page import Context, Page
from tilewright.report.plots import scatter
from tilewright.sim.calibration import table as calibration

TITLE = "Scoreboard"
POSITION = 5


def build(context: Context) -> Page:
    results: dict[str, list[Result]] = {}
    for paper in context.track("scoreboard", papers()):
        results |= evaluate([paper])
    counts = summary(results)
    every = [r for rows in results.values() for r in rows]
    body = join(
        [
            _summary(counts, every),
            _drawing(results),
            *(_paper(paper, rows) for paper, rows in results.items()),
            _constants(),
        ]
    )
    data = {
        "classes": [asdict(count) for count in class_counts(every)],
        "summary": {paper: asdict(count) for paper, count in counts.items()},
        "claims": {paper: [r.as_dict() for r in rows] for paper, rows in results.items()},
        "constants": {name: asdict(entry) for name, entry in calibration().items()},
    }
    return Page(
        summary=f"{headline(Summary.of(every))}; claims of other classes are counted apart.",
        body=body,
        data=json.loads(json.dumps(data, default=_plain)),
    )


def _plain(value: Any) -> Any:
    """Numbers and arrays of numpy as JSON has them."""
    return value.tolist() if isinstance(value, np.ndarray | np.generic) else str(value)


def _summary(counts: dict[str, Summary], every: Sequence[Result]) -> Markup:
    return section(
        "In short",
        paragraph(
            f"{headline(Summary.of(every))}. Every claim of the papers that can be answered was"
            " evaluated while this page was built, and has a class. A measurement of ours, or a"
            " prediction that one of them moves, is reproduced when it lies within the tolerance"
            " that was stated for it beforehand. Other predictions and claims of the other classes"
            " agree or do not, which shows less; the latter are counted apart."
            " A claim that is the same figure as another one counts once. What is off says why."
        ),
        table(
            ("Class", "Evaluated", "Within tolerance", "Duplicates left out"),
            [
                (count.name, count.evaluated, count.within, count.duplicates)
                for count in class_counts(every)
            ],
        ),
        table(
            (
                *("Paper", "Predictions and measurements", "Within tolerance"),
                *("Other classes", "Agree", "Duplicates", "Not modelled", "Claims"),
            ),
            [
                (
                    *(paper, count.evaluated, count.within, count.others, count.others_within),
                    *(count.duplicates, count.not_modelled, count.claims),
                )
                for paper, count in counts.items()
            ],
        ),
        note("By hand:", code("tilewright claims --classes")),
    )


def _drawing(results: dict[str, list[Result]]) -> Markup:
    points = {
        paper: [
            ("" if r.good else r.id, float(r.published), float(r.ours))
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
            (
                *("Claim", "Class", "Verdict", "Published", "Ours", "Registers outside"),
                *("Unit", "Off by", "Allowed", "Place", "Why"),
            ),
            [
                (
                    code(r.id),
                    (r.claim_class or "") + (f", same as {r.same_as}" if r.same_as else ""),
                    coloured(r.good, r.verdict),
                    _shown(r.published) if r.printed else f"derived: {_shown(r.published)}",
                    _shown(r.ours),
                    _shown(r.registers_outside),
                    r.unit,
                    r.deviation_text or "\N{EN DASH}",
                    r.tolerance_text,
                    r.where,
                    r.reason,
                )
                for r in rows
            ],
        ),
        note("Paper's figures:", code(f"tilewright/claims/{paper}.toml")),
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
            ("Constant", "Value", "Unit", "Meaning", "Source", "Set for", "Fitted to"),
            [
                (
                    code(name),
                    entry.value,
                    entry.unit,
                    entry.meaning,
                    entry.source,
                    entry.range,
                    ", ".join(entry.fitted_on),
                )
                for name, entry in calibration().items()
            ],
        ),
        note("Source:", code("sim/calibration.toml")),
    )
