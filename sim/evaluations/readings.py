"""Statements without a number, such as "most kernels", that hold where a number of ours does."""

from typing import Any

from tilewright.sim.claims.classes import ClaimClass
from tilewright.sim.evaluations.registry import EVALUATIONS, evaluation

__all__ = ["our_reading"]


@evaluation(ClaimClass.BOUND)
def our_reading(of: str, least: float = 0.0, most: float = float("inf"), **arguments: Any) -> bool:
    """Whether another evaluation gives a number in the range that we read into the words."""
    number = EVALUATIONS[of](**arguments)
    if not isinstance(number, int | float):
        raise ValueError(f"{of} does not give one number")
    return least <= number <= most
