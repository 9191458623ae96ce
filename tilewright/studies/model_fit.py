"""How good the performance model is: its constants fitted, left-out figures, residuals by table.

    python -m tilewright.studies.model_fit [--leave-one-out]

Fits the constants of ``calibration.toml`` to the figures that their entries name, and no others.
Each constant in turn takes a step up or down while the sum of squared deviations falls, in units
of the claims' tolerances; steps shrink. Constants that no figure determines alone share one sum, so
all of them are fitted together. Constants of whole numbers, which such steps do not move, are tried
at their neighbours. Prints the values; they are written to the table by hand, rounded.

A fitted figure agrees because constants were moved until it did. Left out of the fit, it is a
prediction, and its deviation says how far the model can be trusted between the figures it was
fitted to: ``--leave-one-out`` fits without each of them and writes ``leave_one_out.json``.
"""

import json
import sys
from collections.abc import Callable, Collection, Iterable
from copy import copy
from dataclasses import asdict, dataclass
from pathlib import Path
from statistics import fmean
from typing import Any

from tilewright.base.table import Column, Table
from tilewright.claims import Claim, Compare, papers
from tilewright.claims.scoreboard import Result, answer_number, fitted_claims, scoreboard_claims
from tilewright.sim.calibration import asked, constant, set_constant, table

FIRST_STEP, LAST_STEP = 0.03, 0.002  # shares of a constant
# Not moved, though figures read it: the fit alone would put it where batch 16 costs more than
# batch 1, against what the paper says.
HELD = ("near_activation_bytes",)
WHOLE = ("prefetch_lines", "l2_training_lines", "l2_ahead_lines")
RECORD = Path(__file__).parent / "records" / "leave_one_out.json"


def fitted_constants() -> list[str]:
    """Return the names of the constants that were fitted to published figures."""
    return [name for name, entry in table().items() if entry.fitted_on]


def _values() -> dict[str, float]:
    return {name: constant(name) for name in fitted_constants()}


class Figures:
    """The figures that constants are fitted to; of each, the constants that it follows from."""

    def __init__(self) -> None:
        wanted = fitted_claims()
        self.claims = [c for paper in papers() for c in scoreboard_claims(paper) if c.id in wanted]
        self.read_by: dict[str, frozenset[str]] = {}
        self.terms: dict[str, float] = {}
        for claim in self.claims:
            with asked("constants") as names:
                self.terms[claim.id] = _term(claim)
            self.read_by[claim.id] = frozenset(names)

    def without(self, figure: str) -> "Figures":
        """Return all but one of them."""
        rest = copy(self)
        rest.claims = [claim for claim in self.claims if claim.id != figure]
        rest.terms = {name: term for name, term in self.terms.items() if name != figure}
        return rest

    @property
    def cost(self) -> float:
        """Sum of squared deviations, one where a figure is off by its tolerance."""
        return sum(self.terms.values())

    def changed(self, name: str) -> dict[str, float]:
        """Return the terms as they are with a constant's present value."""
        return self.terms | {c.id: _term(c) for c in self.claims if name in self.read_by[c.id]}


def _term(claim: Claim) -> float:
    off, scale = answer_number(claim) - claim.number, claim.tolerance or 0.0
    if claim.compare is not Compare.ABSOLUTE:
        scale *= claim.number
    return (off / scale) ** 2


def settle(figures: Figures, progress: Callable[[str], None] = lambda text: None) -> None:
    """Move the constants until no single step brings the figures closer."""
    names = [name for name in fitted_constants() if name not in HELD]
    step = FIRST_STEP
    while step > LAST_STEP:
        progress(f"step {step:.1%}, sum {figures.cost:.4f}")
        if not any([_move(figures, name, step) for name in names]):
            step /= 2


def _move(figures: Figures, name: str, step: float) -> bool:
    before = constant(name)
    steps = (
        (before + 1, max(1.0, before - 1))
        if name in WHOLE
        else (before * (1 + step), before / (1 + step))
    )
    for value in steps:
        set_constant(name, value)
        found = figures.changed(name)
        if sum(found.values()) < figures.cost * (1 - 1e-6):
            figures.terms = found
            return True
    set_constant(name, before)
    return False


@dataclass(frozen=True)
class LeftOut:
    """One fitted figure; deviations are shares of it, or in its unit where that is a share."""

    figure: str
    fitted: float  # deviation with the constants of the table
    left_out: float | None  # with those of a fit without it; none where constants rest on it alone
    rests_on_it: tuple[str, ...]  # constants that no other figure follows from


def leave_one_out(only: Collection[str] = ()) -> list[LeftOut]:
    """Fit without each figure in turn, or each of some; constants are as before in the end."""
    figures, before, found = Figures(), _values(), []
    for claim in figures.claims:
        if only and claim.id not in only:
            continue
        print(f"without {claim.id}", file=sys.stderr)
        others = [figures.read_by[c.id] for c in figures.claims if c.id != claim.id]
        mine = figures.read_by[claim.id] - frozenset().union(*others)
        alone = tuple(name for name in fitted_constants() if name in mine and name not in HELD)
        fitted, left_out = _deviation(claim), None
        if not alone:
            settle(figures.without(claim.id))
            left_out = _deviation(claim)
            for name, value in before.items():
                set_constant(name, value)
        found.append(LeftOut(claim.id, fitted, left_out, alone))
    return found


def _deviation(claim: Claim) -> float:
    off = answer_number(claim) - claim.number
    return round(off if claim.compare is Compare.ABSOLUTE else off / claim.number, 4)


Residual = dict[str, Any]  # of a table: how far figures are off, those fitted and the others


def residuals(results: dict[str, list[Result]]) -> list[Residual]:
    """Return the residuals of every table of the claims, in the order of the papers."""
    of = {claim.id: claim.table for paper in results for claim in scoreboard_claims(paper)}
    tables: dict[str, list[Result]] = {}
    for rows in results.values():
        for result in rows:
            if of[result.id] and result.deviation is not None:
                tables.setdefault(of[result.id], []).append(result)
    return [_residual(name, rows) for name, rows in tables.items()]


def residual_table(rows: Iterable[Residual]) -> Table:
    """A row for each table of the papers."""
    columns: dict[str, Column] = {
        "Table": lambda r: r["table"],
        "Fitted": lambda r: r["fitted"],
        "Mean": lambda r: _rounded(r["fitted_mean"]),
        "Others": lambda r: r["others"],
        "Mean of others": lambda r: _rounded(r["others_mean"]),
        "Largest": lambda r: _rounded(r["largest"]),
        "Unit": lambda r: r["unit"].replace("percent", "%"),
    }
    return Table.of(rows, columns)


def _rounded(value: float | None) -> str:
    return "-" if value is None else f"{value:.2f}"


def _residual(name: str, rows: list[Result]) -> Residual:
    off = [(r.fitted, abs(r.deviation)) for r in rows if r.deviation is not None]
    fitted, others = ([size for fit, size in off if fit is wanted] for wanted in (True, False))
    (unit,) = {r.deviation_unit for r in rows}
    return {
        "table": name,
        "fitted": len(fitted),
        "fitted_mean": fmean(fitted) if fitted else None,
        "others": len(others),
        "others_mean": fmean(others) if others else None,
        "largest": max(fitted + others),
        "unit": "points" if unit == "%" else unit,  # the distance of two percentages
    }


def main(arguments: list[str]) -> None:
    """Fit and print each constant before and after, or write the record of figures left out."""
    before = _values()
    if arguments == ["--leave-one-out"]:
        record = {
            "command": "python -m tilewright.studies.model_fit --leave-one-out",
            "constants": before,
            "figures": [asdict(row) for row in leave_one_out()],
        }
        RECORD.write_text(json.dumps(record, indent=1) + "\n", encoding="utf-8")
        return
    figures = Figures()
    start = figures.cost
    settle(figures, lambda text: print(text, file=sys.stderr))
    for name, value in _values().items():
        print(f"{name:32} {before[name]:10.4g} -> {value:10.4g}")
    print(f"sum of squared deviations {start:.4f} -> {Figures().cost:.4f}")


if __name__ == "__main__":
    main(sys.argv[1:])
