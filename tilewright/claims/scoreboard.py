"""Published figures beside ours: each claim with its deviation and a verdict.

Claims are data of ``tilewright.claims``; the modules of the papers compute our figures, each under
the id of its claim, and ``compare`` says how the two are compared.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from functools import cache
from statistics import fmean
from typing import Self

# These fill the registry.
from tilewright.claims import (
    Cause,
    Claim,
    Compare,
    Value,
    accuracy,
    anda,
    deca,
    find_claim,
    harmonia,
    load_claims,
    papers,
    sparamx,
)
from tilewright.claims.registry import COUNTED, EVALUATIONS, MEASURED, Answer, ClaimClass
from tilewright.sim.calibration import inputs_read, table, with_input
from tilewright.sim.pe_units import registers_outside
from tilewright.sim.records import NoRecordError

PAPERS = (accuracy, anda, deca, harmonia, sparamx)

# A claim within its tolerance is reproduced where it can fail by what we built: it is a measurement
# of ours, or a prediction that one of our measurements moves. Any other claim agrees. It is not
# modelled where a record that it needs is not there.
REPRODUCED, AGREES, OFF, NOT_MODELLED = "reproduced", "agrees", "off", "not modelled"
VERDICTS = (REPRODUCED, AGREES, OFF, NOT_MODELLED)


@dataclass(frozen=True, kw_only=True)
class Result:
    """One claim, evaluated."""

    id: str
    where: str  # place in the paper
    published: Value
    printed: bool  # else it follows from the paper by arithmetic
    ours: Answer | None
    registers_outside: Answer | None  # ours with the registers of operands outside every PE
    unit: str
    compare: Compare
    tolerance: float | None  # a share, or in units where ``compare`` is absolute
    deviation: float | None
    deviation_unit: str  # percent, or the claim's own unit where ``compare`` is absolute
    verdict: str
    claim_class: ClaimClass | None  # None where nothing answers the claim
    same_as: str  # the claim of which this one is the same figure, and with which it counts once
    fitted: bool  # a constant of the model was fitted to it
    from_records: bool  # our figure follows committed records of runs
    reason: str  # why it is off or not modelled
    cause: Cause | None  # what kind of reason that is, where one is known

    def as_dict(self) -> dict[str, object]:
        """Return plain data whose keys have one type each, as JSON has it for programs.

        Numbers are in lists, as some claims have several; a statement has ``holds`` instead.
        """
        statement = self.compare is Compare.TRUE
        plain = {name: value for name, value in asdict(self).items() if name != "claim_class"}
        return plain | {
            "class": self.claim_class,
            "published": None if statement else _as_list(self.published),
            "registers_outside": None if statement else _as_list(self.registers_outside),
            "ours": None if statement else _as_list(self.ours),
            "holds": self.ours if statement else None,
        }

    @property
    def good(self) -> bool:
        """Whether ours is within the tolerance."""
        return self.verdict in (REPRODUCED, AGREES)

    @property
    def counted(self) -> bool:
        """Whether it is in the headline: a prediction or a measurement, and no duplicate."""
        return self.claim_class in COUNTED and not self.same_as

    @property
    def tolerance_text(self) -> str:
        """The tolerance as tables show it: ``5%``, ``2``, or ``at least``."""
        if not self.compare.has_tolerance:
            return self.compare.replace("_", " ")
        share = self.tolerance or 0.0
        return f"{share:g}" if self.compare is Compare.ABSOLUTE else f"{100 * share:g}%"

    @property
    def deviation_text(self) -> str:
        """The deviation as tables show it, empty where there is none."""
        if self.deviation is None:
            return ""
        return f"{self.deviation:+.2f}{'%' if self.deviation_unit == 'percent' else ''}"

    @property
    def nearest(self) -> float | None:
        """The figure within tolerance that is nearest to ours, where ours is one number."""
        if isinstance(self.ours, bool | list) or not isinstance(self.published, int | float):
            return None
        if self.ours is None or self.compare is Compare.INSIDE:
            return None
        share = self.tolerance or 0.0
        allowed = share if self.compare is Compare.ABSOLUTE else abs(self.published) * share
        return self.published + (allowed if self.ours > self.published else -allowed)


def _as_list(value: Value | Answer | None) -> list[object] | None:
    return None if value is None else list(value) if isinstance(value, list) else [value]


@cache
def scoreboard_claims(paper: str) -> tuple[Claim, ...]:
    """Return the claims of one paper that are evaluated, in the order of its file."""
    claims = load_claims(paper)
    found = {name: claim for name, claim in claims.items() if claim.is_compared}
    ours = {name for name in EVALUATIONS if name.startswith(f"{paper}.")}
    if ours != found.keys():
        lone = ", ".join(sorted(ours ^ found.keys()))
        raise ValueError(f"claims without an evaluation, or evaluations without a claim: {lone}")
    return tuple(found.values())


@cache
def fitted_claims() -> dict[str, list[str]]:
    """Return for each claim the constants that were fitted to it."""
    found: dict[str, list[str]] = {}
    for name, entry in table().items():
        for claim in entry.fitted_on:
            found.setdefault(claim, []).append(name)
    return found


def class_of(claim: Claim) -> ClaimClass:
    """Return the class of a claim, which follows from how it is answered.

    A bound on a prediction or a measurement is a bound, and so is a trend of predictions; a trend
    that measurements decide, such as which of two is larger, is a measurement.
    """
    found = EVALUATIONS[claim.id].claim_class
    if claim.id in fitted_claims():
        return ClaimClass.FITTED
    trend = found in MEASURED and claim.compare is Compare.TRUE
    if found in COUNTED and not (claim.compare.is_equality or trend):
        return ClaimClass.BOUND
    if found is ClaimClass.PREDICTION and claim.derived_from:
        return ClaimClass.DERIVED
    return found


def answer(claim: Claim) -> Answer:
    """Return what our models and records say about a claim."""
    return EVALUATIONS[claim.id].answer()


def answer_number(claim: Claim) -> float:
    """Return the same for a claim that one number answers."""
    ours = answer(claim)
    if not isinstance(ours, int | float):
        raise ValueError(f"{claim.id}: its answer is not one number")
    return float(ours)


def evaluate(wanted: Iterable[str] | None = None) -> dict[str, list[Result]]:
    """Evaluate all claims of these papers, or of all papers."""
    return {
        paper: [_evaluate(claim) for claim in scoreboard_claims(paper)]
        for paper in wanted or papers()
    }


def _registers_outside(claim: Claim) -> Answer | None:
    """Return the other column of a claim about netlists, where it is another number."""
    if EVALUATIONS[claim.id].claim_class is not ClaimClass.NETLIST:
        return None
    inside = answer(claim)
    with registers_outside():
        outside = answer(claim)
    return None if outside == inside else outside


def _evaluate(claim: Claim) -> Result:
    ours, deviation, verdict, reason = None, None, NOT_MODELLED, ""
    try:
        ours = answer(claim)
    except NoRecordError as missing:
        reason = str(missing)
    else:
        deviation, good = compare(claim.compare, claim.value, ours, claim.tolerance or 0.0)
        verdict = (REPRODUCED if _is_ours(claim.id) else AGREES) if good else OFF
        reason = "" if good else claim.reason
    return Result(
        id=claim.id,
        where=claim.where,
        published=claim.value,
        printed="derived" not in claim.where,
        ours=ours,
        registers_outside=_registers_outside(claim) if ours is not None else None,
        unit=claim.unit,
        compare=claim.compare,
        tolerance=claim.tolerance,
        deviation=deviation,
        deviation_unit=claim.unit if claim.compare is Compare.ABSOLUTE else "percent",
        verdict=verdict,
        claim_class=class_of(claim) if ours is not None else None,
        same_as=claim.same_as,
        fitted=claim.id in fitted_claims(),
        from_records=EVALUATIONS[claim.id].claim_class in MEASURED,
        reason=reason,
        cause=claim.cause if verdict == OFF else None,
    )


@cache  # what moves a claim is the same for any value of our measurements
def _is_ours(name: str) -> bool:
    """Whether it is a measurement of ours, or a prediction that such a measurement moves."""
    claim = find_claim(name)
    found = class_of(claim)
    if found is not ClaimClass.PREDICTION:
        return found in MEASURED
    return next(moving_inputs(claim), None) is not None


def moving_inputs(claim: Claim) -> Iterator[str]:
    """Yield the measured inputs of which 10% more change our answer by a millionth or more."""
    with inputs_read() as names:
        before = answer(claim)
    for name in sorted(names):
        with with_input(name, 1.1):
            if _differ(before, answer(claim)):
                yield name


def _differ(before: Answer, after: Answer) -> bool:
    if isinstance(before, list) and isinstance(after, list):
        return any(map(_differ, before, after))
    if isinstance(before, bool | list) or isinstance(after, list):
        return before != after
    return abs(after - before) > 1e-6 * (abs(before) or 1.0)


def compare(
    how: Compare, published: Value, ours: Value | Answer, tolerance: float
) -> tuple[float | None, bool]:
    """Return the deviation of ours, where it has one, and whether it is allowed."""
    match how, published, ours:
        case Compare.TRUE | Compare.EQUAL, _, _:
            return None, ours == published
        case (
            Compare.INSIDE,
            [float() | int() as low, float() | int() as high],
            [float() | int() as first, float() | int() as last],
        ):
            return None, low * (1 - tolerance) <= first and last <= high * (1 + tolerance)
        case _, list(), list():
            pairs = zip(published, ours, strict=True)
            both = [compare(how, one, mine, tolerance) for one, mine in pairs]
            worst = max((off for off, _ in both if off is not None), key=abs)
            return worst, all(good for _, good in both)
        case _, float() | int(), float() | int():
            return _compare_numbers(how, published, ours, tolerance)
    raise ValueError(f"{ours!r} cannot be compared with {published!r} by {how}")


def _compare_numbers(
    how: Compare, published: float, ours: float, tolerance: float
) -> tuple[float, bool]:
    if how is Compare.ABSOLUTE:
        return ours - published, abs(ours - published) <= tolerance
    deviation = 100 * (ours / published - 1)
    if how is Compare.AT_LEAST:
        return deviation, ours >= published
    if how is Compare.AT_MOST:
        return deviation, ours <= published
    if how is Compare.LESS_THAN:
        return deviation, ours < published
    return deviation, abs(deviation) <= 100 * tolerance


def misses(results: Iterable[Result]) -> list[Result]:
    """Return the predictions and measurements among these that are off, each figure once."""
    return [r for r in results if r.counted and r.verdict == OFF]


@dataclass(frozen=True, kw_only=True)
class ClassCount:
    """The evaluated claims of one class; those that are another one's figure are not counted."""

    name: ClaimClass
    counted: bool  # in the headline
    evaluated: int
    within: int  # their tolerance
    within_percent: float | None
    duplicates: int  # left out of both


def class_counts(results: Iterable[Result]) -> list[ClassCount]:
    """Count these results by class, in the order of the classes."""
    rows = list(results)
    found = []
    for claim_class in ClaimClass:
        members = [r for r in rows if r.claim_class is claim_class]
        single = [r.good for r in members if not r.same_as]
        found.append(
            ClassCount(
                name=claim_class,
                counted=claim_class in COUNTED,
                evaluated=len(single),
                within=sum(single),
                within_percent=100 * fmean(single) if single else None,
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
