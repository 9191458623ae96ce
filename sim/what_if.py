"""Which of our measured inputs moves each claim, by finite differences; what if one were off."""

from collections.abc import Iterable, Iterator
from contextlib import ExitStack
from dataclasses import dataclass

from tilewright.golden.params.names import unknown
from tilewright.sim.claims import Claim, ClaimClass
from tilewright.sim.inputs import inputs_read, with_input
from tilewright.sim.moved import moving_inputs
from tilewright.sim.records import NoRecordError
from tilewright.sim.scoreboard import answer, evaluate

__all__ = ["Change", "Moved", "moved_by", "parse", "what_if"]


@dataclass(frozen=True, kw_only=True)
class Moved:
    """One claim, and how each of our measured inputs moves it."""

    claim: str
    # Input -> change of the figure in percent for 10% more of it; None where a statement turns.
    change_percent_by_input: dict[str, float | None]


def moved_by(claims: Iterable[Claim]) -> Iterator[Moved]:
    """Yield for each claim that our models answer the measured inputs that move it."""
    for claim in claims:
        if claim.evaluate:
            try:
                yield _moved(claim)
            except NoRecordError:
                continue


def _moved(claim: Claim) -> Moved:
    found = dict(moving_inputs(lambda: answer(claim)))
    return Moved(claim=claim.id, change_percent_by_input=found)


@dataclass(frozen=True, kw_only=True)
class Change:
    """A claim whose verdict is another one."""

    claim: str
    claim_class: ClaimClass | None
    before: str
    after: str


def parse(text: str) -> tuple[str, float]:
    """Return name and factor of a what-if: ``deca.cycles=+20%``."""
    name, sign, rest = text.partition("=")
    try:
        percent = float(rest.removesuffix("%"))
    except ValueError:
        percent = float("nan")
    if not (name and sign and rest.endswith("%") and -100 < percent < float("inf")):
        raise ValueError(f"a what-if is INPUT=+N% or INPUT=-N%, N below 100, not {text!r}")
    return name, 1 + percent / 100


def what_if(factors: dict[str, float], papers: Iterable[str] | None = None) -> list[Change]:
    """Return the claims whose verdicts change when inputs have these factors."""
    wanted = list(papers) if papers is not None else None
    with inputs_read() as names:
        before = evaluate(wanted)
    for name in factors:
        if name not in names:
            raise ValueError(unknown("input", name, sorted(names)))
    with ExitStack() as stack:
        for name, factor in factors.items():
            stack.enter_context(with_input(name, factor))
        after = evaluate(wanted)
    return [
        Change(claim=old.id, claim_class=old.claim_class, before=old.verdict, after=new.verdict)
        for paper, rows in before.items()
        for old, new in zip(rows, after[paper], strict=True)
        if old.verdict != new.verdict
    ]
