"""The evaluations by their names, and the class of the claims that each answers."""

from collections.abc import Callable
from typing import Any, TypeVar

from tilewright.golden.params.block import require
from tilewright.sim.claims import Value
from tilewright.sim.claims.classes import MEASURED, ClaimClass

__all__ = ["CLASSES", "EVALUATIONS", "Answer", "evaluation", "reads_records"]

Answer = Value
EVALUATIONS: dict[str, Callable[..., Any]] = {}  # a list of numbers is an answer too
CLASSES: dict[str, ClaimClass] = {}
F = TypeVar("F", bound=Callable[..., Any])


def evaluation(claim_class: ClaimClass) -> Callable[[F], F]:
    """Enter a function that answers claims under its own name.

    ``claim_class`` is what its answers are, where a claim does not state another class. A function
    of a measured class reads committed records, of synthesis, of runs of the RTL or of the kernels.
    """

    require(isinstance(claim_class, ClaimClass), f"{claim_class!r} is no class of claims")

    def enter(function: F) -> F:
        EVALUATIONS[function.__name__] = function
        CLASSES[function.__name__] = claim_class
        return function

    return enter


def reads_records(name: str) -> bool:
    """Whether the answer of an evaluation follows committed records."""
    return CLASSES.get(name) in MEASURED
