"""Published figures against ours: each claim with its deviation and a verdict.

Claims are data of ``tilewright.claims``; the modules of the papers compute our figures, and
``compare`` says how the two are compared.
"""

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack, suppress
from dataclasses import asdict, dataclass
from functools import cache
from itertools import combinations
from typing import Self

from tilewright.claims import (
    FUNCTIONS,
    MEASURED,
    Answer,
    Cause,
    Claim,
    ClaimClass,
    Compare,
    Value,
    accuracy,
    anda,
    deca,
    find_claim,
    harmonia,
    load_claims,
    load_headlines,
    papers,
    sparamx,
)
from tilewright.golden.params.names import unknown
from tilewright.sim.calibration import asked, changed, other_choice, table
from tilewright.sim.records import NoRecordError

MODULES = (accuracy, anda, deca, harmonia, sparamx)  # which fill ``FUNCTIONS``

# A claim within its tolerance holds, unless its class or its entry says why that shows nothing. One
# that is not is reversed where the paper and we disagree about which of two is better.
HOLDS, OFF, REVERSED = "holds", "off", "reversed"
NOT_EVIDENCE, NOT_EVALUATED = "not evidence", "not evaluated"
VERDICTS = (HOLDS, OFF, REVERSED, NOT_EVIDENCE, NOT_EVALUATED)
MISSED = (OFF, REVERSED)
COUNTED = (HOLDS, *MISSED)
NO_EVIDENCE = {  # classes in which agreement shows nothing, and why
    ClaimClass.FITTED: "a constant of the model was fitted to it",
    ClaimClass.DERIVED: "arithmetic on figures that constants were fitted to",
    ClaimClass.IDENTITY: "a definition",
    ClaimClass.BOUND: "a bound or a trend that little could break",
}

# Subjects that decide a figure; only the first is about the accelerators that we built.
HARDWARE, SOFTWARE = "our hardware", "the model of software and memory"
SUBJECTS = {ClaimClass.SILICON: "our kernels on a Xeon", ClaimClass.MODEL: "open language models"}
# The what-if with all accelerators twice as slow.
TWICE_AS_SLOW = dict.fromkeys(("deca.cycles", "deca.rates", "anda.cycles", "harmonia.cycles"), 2.0)
CHANGES = (1.1, 0.9, 1.2, 0.8, 1.5, 0.5, 2.0)  # of an input, the smallest first


@dataclass(frozen=True, kw_only=True)
class Result:
    """One claim, evaluated."""

    id: str
    where: str  # place in the paper
    published: Value
    printed: bool  # else it follows from the paper by arithmetic
    ours: Answer | None
    interval: list[float] | None  # least and most of ours over the open choices
    unit: str
    compare: Compare
    tolerance: float | None  # a share, or in units where ``compare`` is absolute
    deviation: float | None
    deviation_unit: str  # percent, or the claim's own unit where ``compare`` is absolute
    verdict: str
    claim_class: ClaimClass | None  # None where nothing answers the claim
    subject: str  # which decides it
    same_as: str  # a claim with the same cause, with which it counts once
    fitted: bool  # a constant of the model was fitted to it
    reason: str  # why it is off, no evidence or not evaluated
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
            "ours": None if statement else _as_list(self.ours),
            "holds": self.ours if statement else None,
        }

    @property
    def good(self) -> bool:
        return self.verdict in (HOLDS, NOT_EVIDENCE)

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
    """Return the claims of one paper that are evaluated or a headline, in the order of its file."""
    claims, headlines = load_claims(paper).values(), load_headlines(paper).values()
    shown = {name for names in headlines for name in names}
    return tuple(claim for claim in claims if claim.is_compared or claim.id in shown)


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
    found = claim.claim_class or function_of(claim)[1]
    if claim.id in fitted_claims():
        return ClaimClass.FITTED
    trend = found in MEASURED and claim.compare is Compare.TRUE
    equality = claim.compare.has_tolerance or claim.compare is Compare.EQUAL
    if found in (ClaimClass.PREDICTION, *MEASURED) and not (equality or trend):
        return ClaimClass.BOUND
    if found is ClaimClass.PREDICTION and claim.derived_from:
        return ClaimClass.DERIVED
    return found


def function_of(claim: Claim) -> tuple[Callable[..., Answer], ClaimClass]:
    """Return the function that answers a claim, and its class."""
    name = claim.ours[0]
    if name not in FUNCTIONS:
        raise ValueError(f"{claim.id}: {unknown('function', name, FUNCTIONS)}")
    return FUNCTIONS[name]


def answer(claim: Claim) -> Answer:
    """Return the answer of our models and records to a claim."""
    return function_of(claim)[0](*claim.ours[1:])


def answer_number(claim: Claim) -> float:
    """Return the same for a claim that one number answers."""
    ours = answer(claim)
    if not isinstance(ours, int | float):
        raise ValueError(f"{claim.id}: its answer is not one number")
    return float(ours)


def evaluate(
    wanted: Iterable[str] | None = None, what_if: Mapping[str, float] | None = None
) -> dict[str, list[Result]]:
    """Evaluate all claims of these papers, or of all papers.

    ``what_if`` has factors on measured inputs, such as 1.2 for ``deca.cycles``.
    """
    chosen = {paper: scoreboard_claims(paper) for paper in wanted or papers()}
    with ExitStack() as stack:
        for name, factor in (what_if or {}).items():
            stack.enter_context(changed(name, factor))
        return {paper: list(map(_evaluate, claims)) for paper, claims in chosen.items()}


def measured_inputs() -> set[str]:
    """Return the names of all measured inputs that answers follow from."""
    with asked("inputs") as names:
        for claim in (c for paper in papers() for c in load_claims(paper).values()):
            with suppress(NoRecordError):
                if claim.is_compared:
                    answer(claim)
    return names


def _interval(claim: Claim) -> list[float] | None:
    """The least and most of ours over the open choices, where any of them changes it."""
    if claim.compare is Compare.TRUE:
        return None
    with asked("choices") as names:
        ours = _numbers(answer(claim))
    found = list(ours)
    for taken in (t for n in range(len(names)) for t in combinations(sorted(names), n + 1)):
        with suppress(NoRecordError), other_choice(*taken):
            found += _numbers(answer(claim))
    return None if set(found) == set(ours) else [min(found), max(found)]


def _numbers(ours: Answer) -> list[float]:
    return [] if isinstance(ours, bool) else list(ours) if isinstance(ours, list) else [ours]


def _evaluate(claim: Claim) -> Result:
    ours, deviation, verdict, reason, found = None, None, NOT_EVALUATED, claim.note, None
    if claim.is_compared:
        try:
            ours = answer(claim)
        except NoRecordError as missing:
            reason = str(missing)
        else:
            found = class_of(claim)
            deviation, good = compare(claim.compare, claim.value, ours, claim.tolerance or 0.0)
            verdict, reason = _verdict(claim, found, ours, good)
    return Result(
        id=claim.id,
        where=claim.where,
        published=claim.value,
        printed="derived" not in claim.where,
        ours=ours,
        interval=_interval(claim) if ours is not None else None,
        unit=claim.unit,
        compare=claim.compare,
        tolerance=claim.tolerance,
        deviation=deviation,
        deviation_unit=claim.unit if claim.compare is Compare.ABSOLUTE else "percent",
        verdict=verdict,
        claim_class=found,
        subject=_subject(claim.id) if verdict in COUNTED else "",
        same_as=claim.same_as,
        fitted=claim.id in fitted_claims(),
        reason=reason,
        cause=claim.cause if verdict in MISSED else None,
    )


def _verdict(claim: Claim, found: ClaimClass, ours: Answer, good: bool) -> tuple[str, str]:
    if good:
        reason = claim.not_evidence or NO_EVIDENCE.get(found, "")
        return (NOT_EVIDENCE if reason else HOLDS), reason
    both = (claim.value, ours)
    ratio = claim.unit == "x" and all(type(value) in (int, float) for value in both)
    turned = ratio and (claim.number > 1) != (_numbers(ours)[0] > 1)
    return (REVERSED if turned or claim.compare is Compare.TRUE else OFF), claim.reason


@cache  # what moves a claim is the same for any value of our measurements
def _subject(name: str) -> str:
    """Return the subject of a claim: our hardware where a measurement of it moves the answer."""
    claim = find_claim(name)
    found = function_of(claim)[1]
    if found in SUBJECTS:
        return SUBJECTS[found]
    ours = found in MEASURED or next(moving_inputs(claim), None) is not None
    return HARDWARE if ours else SOFTWARE


def moving_inputs(claim: Claim) -> Iterator[str]:
    """Yield the measured inputs that change our answer by 1% or more where they double."""
    with asked("inputs") as names:
        before = answer(claim)
    for name in sorted(names):
        with changed(name, 2.0):
            if _differ(before, answer(claim)):
                yield name


def turning_input(claim: Claim) -> str:
    """Return the smallest change of a measured input that turns the verdict: ``deca.cycles +20%``.

    Only the steps of ``CHANGES`` are tried, one input at a time.
    """
    with asked("inputs") as names:
        before = _good(claim)
    for factor in CHANGES if names else ():
        for name in sorted(names):
            with changed(name, factor):
                if _good(claim) != before:
                    return f"{name} {factor - 1:+.0%}"
    return "none within a factor of two" if names else "no measurement of ours"


def _good(claim: Claim) -> bool:
    return compare(claim.compare, claim.value, answer(claim), claim.tolerance or 0.0)[1]


def _differ(before: Answer, after: Answer) -> bool:
    if isinstance(before, list) and isinstance(after, list):
        return any(map(_differ, before, after))
    if isinstance(before, bool | list) or isinstance(after, list):
        return before != after
    return abs(after - before) > 0.01 * (abs(before) or 1.0)


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
        case Compare.ABSOLUTE, float() | int(), float() | int():
            return ours - published, abs(ours - published) <= tolerance
        case _, float() | int(), float() | int():
            deviation = 100 * (ours / published - 1)
            bounds = {
                Compare.AT_LEAST: ours >= published,
                Compare.AT_MOST: ours <= published,
                Compare.LESS_THAN: ours < published,
            }
            return deviation, bounds.get(how, abs(deviation) <= 100 * tolerance)
    raise ValueError(f"{ours!r} cannot be compared with {published!r} by {how}")


def misses(results: Iterable[Result]) -> list[Result]:
    return [r for r in results if r.verdict in MISSED]


def turned(
    before: Mapping[str, Sequence[Result]], after: Mapping[str, Sequence[Result]]
) -> list[tuple[Result, Result]]:
    """Return the claims whose verdict is another one, as they were and as they are."""
    pairs = (pair for name in before for pair in zip(before[name], after[name], strict=True))
    return [(a, b) for a, b in pairs if a.verdict != b.verdict]


@dataclass(frozen=True, kw_only=True)
class Line:
    """One claim of an abstract or conclusion, with all of its figures."""

    text: str
    results: tuple[Result, ...]

    @property
    def paper(self) -> str:
        return self.results[0].id.partition(".")[0]

    @property
    def worst(self) -> Result:
        """The figure that decides the verdict."""
        order = (REVERSED, OFF, NOT_EVALUATED, NOT_EVIDENCE, HOLDS)
        return min(self.results, key=lambda r: order.index(r.verdict))

    @property
    def turned_by(self) -> str:
        """The smallest change of a measured input that turns the verdict."""
        claim, decides = find_claim(self.worst.id), self.worst.verdict != NOT_EVALUATED
        return turning_input(claim) if claim.is_compared and decides else "-"

    def as_dict(self) -> dict[str, object]:
        """Return plain data, with the ids of its figures."""
        return {
            "text": self.text,
            "verdict": self.worst.verdict,
            "ids": [r.id for r in self.results],
            "turned_by": self.turned_by,
        }


def abstracts(results: Mapping[str, Sequence[Result]]) -> list[Line]:
    """Return a line for each claim of the abstracts and conclusions."""
    lines = []
    for paper, rows in results.items():
        known = {r.id: r for r in rows}
        for text, names in load_headlines(paper).items():
            lines.append(Line(text=text, results=tuple(known[name] for name in names)))
    return lines


def independent(results: Iterable[Result]) -> list[Result]:
    """Return one result for each cause among these: the first that is missed, else that holds."""
    groups: dict[str, list[Result]] = {}
    for r in results:
        groups.setdefault(r.same_as or r.id, []).append(r)
    order = (*MISSED, HOLDS, NOT_EVIDENCE, NOT_EVALUATED)
    return [min(rows, key=lambda r: order.index(r.verdict)) for rows in groups.values()]


@dataclass(frozen=True, kw_only=True)
class Count:
    """Results of one kind by verdict; those with the same cause are one."""

    name: str
    claims: int
    holds: int
    off: int
    reversed: int
    not_evidence: int
    not_evaluated: int

    @property
    def counted(self) -> int:
        return self.holds + self.off + self.reversed

    @classmethod
    def of(cls, name: str, results: Iterable[Result]) -> Self:
        rows = list(results)
        verdicts = Counter(r.verdict.replace(" ", "_") for r in independent(rows))
        names = (verdict.replace(" ", "_") for verdict in VERDICTS)
        return cls(name=name, claims=len(rows), **{key: verdicts[key] for key in names})


def counts(results: Mapping[str, Sequence[Result]], by: str) -> list[Count]:
    """Count results by ``paper``, by ``class`` of the claim or by ``subject`` of what decides."""
    if by == "paper":
        return [Count.of(paper, rows) for paper, rows in results.items()]
    every = independent(r for rows in results.values() for r in rows)
    kinds = list(ClaimClass) if by == "class" else [HARDWARE, SOFTWARE, *SUBJECTS.values()]
    key = "claim_class" if by == "class" else by
    return [Count.of(kind, (r for r in every if getattr(r, key) == kind)) for kind in kinds]


def headline(results: Mapping[str, Sequence[Result]]) -> str:
    """Return the one sentence about all results."""
    first, *others = counts(results, "subject")
    apart = ", ".join(f"{c.holds} of {c.counted} of {c.name}" for c in others if c.counted)
    text = f"{first.holds} of {first.counted} figures that our hardware decides hold"
    return f"{text}; counted apart are {apart}" if apart else text
