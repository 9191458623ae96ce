"""What is off because of a choice of ours: the most that could be within tolerance.

Where a paper leaves something open, one rule serves all figures: operands in registers inside every
PE, the better of two fp16 baselines, each baseline in its best arrangement, three tiles on their
way in each of DECA's loaders. Here every figure that is off is worked out again with each other
choice. Taking for every figure the choice that suits it best is no rule and would be
cherry-picking; the count is a bound, which says that no rule at all brings more figures within
tolerance.
"""

from collections.abc import Callable, Iterable, Mapping
from contextlib import AbstractContextManager
from dataclasses import dataclass
from math import ceil

from tilewright.sim.calibration import changed
from tilewright.sim.claims import find_claim
from tilewright.sim.classes import Summary
from tilewright.sim.evaluations.deca import one_command_a_loader
from tilewright.sim.evaluations.elements import (
    default_arrangements,
    discrete_rounding,
    memories_outside,
    registers_outside,
)
from tilewright.sim.misses import misses
from tilewright.sim.records import NoRecordError
from tilewright.sim.scoreboard import Result, answer, compare

__all__ = ["AIM", "CHOICES", "Ceiling", "ceiling", "within_wider"]

AIM = 0.8  # of predictions and measurements, to be within tolerance

CHOICES: Mapping[str, Callable[[], AbstractContextManager[None]]] = {
    "operand registers outside every PE": registers_outside,
    "memories of waiting values outside Harmonia's converter and its rival": memories_outside,
    "an fp16 baseline that rounds after every operation": discrete_rounding,
    "baselines' PEs as they are by default, not in their best arrangement": default_arrangements,
    "one tile on its way in each of DECA's loaders": one_command_a_loader,
    "room in the L2 for every prefetch of DECA": lambda: changed("prefetch_lines", 20),
}


@dataclass(frozen=True, kw_only=True)
class Ceiling:
    """How many figures could be within tolerance, each with the choice that suits it best."""

    evaluated: int  # predictions and measurements
    within: int  # with the rules as they are
    reached_by: Mapping[str, tuple[str, ...]]  # claim that is off -> choices that bring it within
    outside: frozenset[str]  # claims that are off for a cause that lies outside of this project

    @property
    def aimed(self) -> int:
        """How many would have to be within tolerance to reach the aim."""
        return ceil(AIM * self.evaluated)

    @property
    def most(self) -> int:
        """Within tolerance with the choices that suit best."""
        return self.within + len(self.reached_by)

    @property
    def most_of_all(self) -> int:
        """Within tolerance if moreover nothing were off for a cause that lies in this project."""
        return self.evaluated - len(self.outside - self.reached_by.keys())

    @property
    def sentence(self) -> str:
        """The bound in words."""
        shares = [100 * count / self.evaluated for count in (self.most, self.most_of_all)]
        return (
            f"With the choice of ours that suits each figure best, a bound and no rule, "
            f"{self.most} of {self.evaluated} would be ({shares[0]:.0f}%); were moreover no"
            f" figure off because a design or model of ours differs, {self.most_of_all}"
            f" ({shares[1]:.0f}%)"
        )


def ceiling(results: Iterable[Result]) -> Ceiling:
    """Return the bound for these results."""
    rows = list(results)
    total = Summary.of(rows)
    off = misses(rows)
    found = {miss.claim: _choices(miss.claim) for miss in off}
    outside = {miss.claim for miss in off if miss.cause is not None and miss.cause.outside}
    return Ceiling(
        outside=frozenset(outside),
        evaluated=total.evaluated,
        within=total.within,
        reached_by={claim: names for claim, names in found.items() if names},
    )


def within_wider(results: Iterable[Result], factor: float) -> int:
    """Count what would be within tolerance if every tolerance were ``factor`` times as wide."""
    rows = list(results)
    claims = ((find_claim(miss.claim), miss.ours) for miss in misses(rows))
    return Summary.of(rows).within + sum(
        compare(claim.compare, claim.value, ours, factor * (claim.tolerance or 0.0))[1]
        for claim, ours in claims
    )


def _choices(name: str) -> tuple[str, ...]:
    return tuple(choice for choice, made in CHOICES.items() if _within(name, made))


def _within(name: str, made: Callable[[], AbstractContextManager[None]]) -> bool:
    claim = find_claim(name)
    try:
        with made():
            ours = answer(claim)
    except NoRecordError:
        return False
    return compare(claim.compare, claim.value, ours, claim.tolerance or 0.0)[1]
