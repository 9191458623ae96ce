"""Predictions and measurements that are off: by how much, and the computation that shows why."""

from collections import Counter
from collections.abc import Iterable
from dataclasses import asdict, dataclass
from inspect import getdoc

from tilewright.sim.claims import Claim, ClaimClass, Compare, Value, find_claim
from tilewright.sim.evaluations import Answer
from tilewright.sim.evaluations.causes import Cause
from tilewright.sim.evaluations.reasons import CAUSES, NEEDS, REASONS
from tilewright.sim.scoreboard import OFF, Result

__all__ = ["Miss", "causes", "kinds", "misses"]


@dataclass(frozen=True, kw_only=True)
class Miss:
    """One claim of the headline that is off."""

    claim: str
    claim_class: ClaimClass
    published: Value
    ours: Answer
    unit: str
    deviation: str  # as tables show it
    tolerance: str
    reason: str
    shown_by: str  # the function of ``tilewright.sim.evaluations.reasons``; "" where none is known
    computed: str  # what that function works out, in the words of its documentation
    cause: Cause | None  # what kind of cause that is
    needs: str  # what would have to be had or built for it to be within; "" where none is known
    nearest: float | None  # what ours would have to be at least, or at most; of one number alone

    def as_dict(self) -> dict[str, object]:
        """Return plain data, as JSON has it for programs."""
        return asdict(self)


def misses(results: Iterable[Result]) -> list[Miss]:
    """Return the counted claims among these results that are off, each figure once."""
    return [_miss(r) for r in results if r.counted and not r.same_as and r.verdict == OFF]


def causes(found: Iterable[Miss]) -> dict[str, int]:
    """Return how many of these each computation explains, the most frequent first; "" for none."""
    return dict(Counter(miss.computed for miss in found).most_common())


def kinds(found: Iterable[Miss]) -> dict[Cause, list[Miss]]:
    """Return the claims of every kind of cause, the most frequent kind first.

    A claim that nothing explains has no kind, and is in no list.
    """
    by_kind: dict[Cause, list[Miss]] = {}
    for miss in found:
        if miss.cause is not None:
            by_kind.setdefault(miss.cause, []).append(miss)
    return dict(sorted(by_kind.items(), key=lambda item: -len(item[1])))


def _miss(result: Result) -> Miss:
    assert result.claim_class is not None and result.ours is not None
    claim = find_claim(result.id)
    shown_by = claim.shown_by
    text = (getdoc(REASONS[shown_by]) or "") if shown_by else ""
    return Miss(
        claim=result.id,
        claim_class=result.claim_class,
        published=result.published,
        ours=result.ours,
        unit=result.unit,
        deviation=result.deviation_text,
        tolerance=result.tolerance_text,
        reason=result.reason,
        shown_by=shown_by,
        computed=text.partition("\n\n")[0].replace("\n", " "),
        cause=CAUSES[shown_by] if shown_by else None,
        needs=NEEDS[shown_by] if shown_by else "",
        nearest=_nearest(claim, result.ours),
    )


def _nearest(claim: Claim, ours: Answer) -> float | None:
    """The figure within tolerance that is nearest to ours."""
    if isinstance(ours, bool) or not isinstance(ours, int | float):
        return None
    tolerance = claim.tolerance or 0.0
    match claim.compare:
        case Compare.RELATIVE:
            allowed = abs(claim.number) * tolerance
        case Compare.ABSOLUTE:
            allowed = tolerance
        case Compare.AT_LEAST | Compare.AT_MOST | Compare.LESS_THAN:
            allowed = 0.0
        case _:
            return None
    return claim.number + (allowed if ours > claim.number else -allowed)
