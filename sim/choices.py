"""What is off because of a choice of ours: the most that could be within tolerance.

Where a paper leaves something open, one rule serves all figures: operands in registers inside every
PE, the better of two fp16 baselines, three tiles on their way in each of DECA's loaders. Here every
figure that is off is worked out again with each other choice. Taking for every figure the choice
that suits it best is no rule and would be cherry-picking; the count is a bound, which says that no
rule at all brings more figures within tolerance.
"""

from collections.abc import Callable, Iterable, Mapping
from contextlib import AbstractContextManager
from dataclasses import dataclass

from tilewright.sim.calibration import changed
from tilewright.sim.claims import find_claim
from tilewright.sim.classes import Summary
from tilewright.sim.evaluations.deca import one_command_a_loader
from tilewright.sim.evaluations.elements import discrete_rounding, registers_outside
from tilewright.sim.misses import misses
from tilewright.sim.records import NoRecordError
from tilewright.sim.scoreboard import Result, answer, compare

__all__ = ["CHOICES", "Ceiling", "ceiling"]

CHOICES: Mapping[str, Callable[[], AbstractContextManager[None]]] = {
    "operand registers outside every PE": registers_outside,
    "an fp16 baseline that rounds after every operation": discrete_rounding,
    "one tile on its way in each of DECA's loaders": one_command_a_loader,
    "room in the L2 for every prefetch of DECA": lambda: changed("prefetch_lines", 20),
}


@dataclass(frozen=True, kw_only=True)
class Ceiling:
    """How many figures could be within tolerance, each with the choice that suits it best."""

    evaluated: int  # predictions and measurements
    within: int  # with the rules as they are
    reached_by: Mapping[str, tuple[str, ...]]  # claim that is off -> choices that bring it within

    @property
    def most(self) -> int:
        """Within tolerance with the choices that suit best."""
        return self.within + len(self.reached_by)

    @property
    def sentence(self) -> str:
        """The bound in words."""
        share = 100 * self.most / self.evaluated
        return (
            f"With the choice of ours that suits each figure best, a bound and no rule, "
            f"{self.most} of {self.evaluated} would be ({share:.0f}%)"
        )


def ceiling(results: Iterable[Result]) -> Ceiling:
    """Return the bound for these results."""
    rows = list(results)
    total = Summary.of(rows)
    found = {miss.claim: _choices(miss.claim) for miss in misses(rows)}
    return Ceiling(
        evaluated=total.evaluated,
        within=total.within,
        reached_by={claim: names for claim, names in found.items() if names},
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
