"""How many claims of each class agree: the counts that README, report and command line state."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Self

from tilewright.sim.claims.classes import COUNTED, ClaimClass
from tilewright.sim.scoreboard import NOT_MODELLED, REPRODUCED, Result

__all__ = ["ClassCount", "Summary", "class_counts", "headline", "summary"]


@dataclass(frozen=True, kw_only=True)
class ClassCount:
    """The evaluated claims of one class; those that are another one's figure are not counted."""

    claim_class: ClaimClass
    evaluated: int
    within: int  # their tolerance
    duplicates: int  # left out of both

    @property
    def within_percent(self) -> float | None:
        """Share of the evaluated ones, in percent."""
        return 100 * self.within / self.evaluated if self.evaluated else None

    def as_dict(self) -> dict[str, object]:
        """Return plain data, as JSON has it for programs."""
        return {
            "name": str(self.claim_class),
            "counted": self.claim_class in COUNTED,
            "evaluated": self.evaluated,
            "within": self.within,
            "within_percent": self.within_percent,
            "duplicates": self.duplicates,
        }


def class_counts(results: Iterable[Result]) -> list[ClassCount]:
    """Count these results by class, in the order of the classes."""
    rows = list(results)
    found = []
    for claim_class in ClaimClass:
        members = [r for r in rows if r.claim_class is claim_class]
        single = [r for r in members if not r.same_as]
        found.append(
            ClassCount(
                claim_class=claim_class,
                evaluated=len(single),
                within=sum(r.good for r in single),
                duplicates=len(members) - len(single),
            )
        )
    return found


@dataclass(frozen=True, kw_only=True)
class Summary:
    """The headline of some results: what can fail, apart from what agrees in a lesser way."""

    evaluated: int  # predictions and measurements
    within: int  # of these, their tolerance
    reproduced: int  # of these, what we measured, or predictions that our measurements move
    trends: int  # of the evaluated ones: no number, but an order that measurements decide
    trends_within: int
    others: int  # evaluated claims of the other classes
    others_within: int
    duplicates: int
    not_modelled: int

    @classmethod
    def of(cls, results: Iterable[Result]) -> Self:
        """Count these results."""
        rows = list(results)
        answered = [r for r in rows if r.claim_class is not None and not r.same_as]
        counted = [r for r in answered if r.counted]
        others = [r for r in answered if not r.counted]
        trends = [r for r in counted if not r.compare.is_equality]
        return cls(
            evaluated=len(counted),
            within=sum(r.good for r in counted),
            reproduced=sum(r.verdict == REPRODUCED for r in counted),
            trends=len(trends),
            trends_within=sum(r.good for r in trends),
            others=len(others),
            others_within=sum(r.good for r in others),
            duplicates=sum(bool(r.same_as) for r in rows if r.claim_class is not None),
            not_modelled=sum(r.verdict == NOT_MODELLED for r in rows),
        )

    @property
    def claims(self) -> int:
        """Claims of any verdict."""
        return self.evaluated + self.others + self.duplicates + self.not_modelled


def summary(results: Mapping[str, Sequence[Result]]) -> dict[str, Summary]:
    """Count the results of each paper."""
    return {paper: Summary.of(rows) for paper, rows in results.items()}


def headline(total: Summary) -> str:
    """Return the one sentence about all results."""
    share = 100 * total.within / total.evaluated if total.evaluated else 0.0
    text = (
        f"{total.within} of {total.evaluated} predictions and measurements are within tolerance"
        f" ({share:.0f}%)"
    )
    if total.trends:
        figures = total.evaluated - total.trends
        text += (
            f": {total.within - total.trends_within} of {figures} figures, and"
            f" {total.trends_within} of {total.trends} trends that measurements decide"
        )
    if total.reproduced < total.within:
        text += (
            f"; {total.reproduced} of them are reproduced, the other"
            f" {total.within - total.reproduced} are predictions that no measurement of ours moves"
        )
    return text
