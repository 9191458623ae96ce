"""The papers' figures and ours, claim by claim."""

from collections import Counter
from dataclasses import replace
from functools import cache
from typing import TypeGuard

from tilewright.base.table import Column, Table, code, verdict
from tilewright.claims import Cause, claims_of_study, find_claim
from tilewright.claims import facts as facts_of_paper
from tilewright.claims.scoreboard import (
    TWICE_AS_SLOW,
    Result,
    answer,
    compare,
    counts,
    evaluate,
    headline,
    independent,
    misses,
)
from tilewright.claims.scoreboard import abstracts as abstract_lines
from tilewright.claims.tables import (
    claim_table,
    count_table,
    fact_table,
    headline_table,
    shown,
)
from tilewright.sim.calibration import other_choice
from tilewright.sim.calibration import table as calibration
from tilewright.site.html import Markup
from tilewright.site.plots import scatter

TITLES = {"anda": "Anda", "deca": "DECA", "harmonia": "Harmonia", "sparamx": "SparAMX"}


@cache
def _results() -> dict[str, list[Result]]:
    return evaluate()


def _every() -> list[Result]:
    return [result for rows in _results().values() for result in rows]


def in_short() -> str:
    """How many figures are within their tolerance."""
    return headline(_results())


def abstracts() -> Table:
    """A line for each claim of the abstracts and conclusions."""
    return headline_table(abstract_lines(_results()))


def by_class() -> Table:
    """Claims of each class by verdict."""
    return count_table("Class", counts(_results(), "class"))


def by_subject() -> Table:
    """Claims by verdict, and by what decides them."""
    return count_table("Decided by", counts(_results(), "subject"))


def twice_as_slow() -> Table:
    """The same if all accelerators took twice as many cycles."""
    return count_table("Decided by", counts(evaluate(what_if=TWICE_AS_SLOW), "subject"))


def by_paper() -> Table:
    """Claims of each paper by verdict."""
    found = counts(_results(), "paper")
    return count_table("Paper", [replace(count, name=TITLES[count.name]) for count in found])


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
    return claim_table(_results()[name])


def loaders() -> Table:
    """Figures of DECA that its loaders decide, with ours and with the paper's."""
    rows = []
    for r in (r for r in _results()["deca"] if r.interval):
        claim = find_claim(r.id)
        with other_choice("loaders"):
            other = answer(claim)
        if other != r.ours:
            held = compare(claim.compare, claim.value, other, claim.tolerance or 0.0)[1]
            verdicts = [verdict(good, "within" if good else "off") for good in (r.good, held)]
            rows.append((code(r.id), *map(shown, (r.published, r.ours, other)), *verdicts))
    names = ("Claim", "Published", "Ours", "`as_published`", "Verdict of ours", "of the other")
    return Table(names, rows)


def causes() -> Table:
    """How many figures are off by each kind of cause, and what would settle it."""
    found = Counter(result.cause for result in misses(independent(_every())))
    rows = [(str(cause), found[cause], cause.settled_by) for cause in Cause if found[cause]]
    return Table(("Cause", "Figures", "Settled by"), rows)


def off(name: str) -> Table:
    """The claims of a paper that are off, and why."""
    return claim_table(misses(_results()[name]))


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
    return fact_table(claims_of_study(study) if study else facts_of_paper(paper))
