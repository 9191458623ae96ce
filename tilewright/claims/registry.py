"""Which function answers which claim: ``answers`` enters a function under the claims' ids."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import TypeVar, TypeVarTuple

Answer = bool | float | list[float]


class ClaimClass(StrEnum):
    """The class of an evaluated claim.

    A prediction or a measurement shows something: its value was not used to get ours. In the other
    classes agreement shows nothing.
    """

    PREDICTION = "prediction"  # out of sample: no constant was fitted to it
    RTL = "measured on our RTL"
    SILICON = "measured on silicon"
    NETLIST = "from a netlist"
    MODEL = "measured on open models"  # perplexities and tasks of open models
    FITTED = "fitted"  # a constant of the model was fitted to it
    DERIVED = "derived from fitted"  # arithmetic on figures that constants were fitted to
    IDENTITY = "identity"  # a definition, or a formula against itself
    BOUND = "bound"  # at least, at most, or a trend of predictions


PREDICTION, RTL, SILICON, NETLIST, MODEL = list(ClaimClass)[:5]
FITTED, DERIVED, IDENTITY, BOUND = list(ClaimClass)[5:]
MEASURED = (RTL, SILICON, NETLIST, MODEL)


@dataclass(frozen=True)
class Evaluation:
    """How one claim is answered."""

    answer: Callable[[], Answer]
    claim_class: ClaimClass  # of the function; bounds and fitted figures among its claims differ


EVALUATIONS: dict[str, Evaluation] = {}  # by the id of the claim

Arguments = TypeVarTuple("Arguments")
R = TypeVar("R", bound=Answer)


def answers(
    claim_class: ClaimClass, claims: Mapping[str, tuple[*Arguments]]
) -> Callable[[Callable[[*Arguments], R]], Callable[[*Arguments], R]]:
    """Enter a function as the answer to claims, each with the arguments that are its value here.

    A function of a measured class reads committed records, of synthesis, of runs of the RTL or of
    the kernels, and raises :class:`tilewright.sim.records.NoRecordError` where one is missing.
    """

    def enter(function: Callable[[*Arguments], R]) -> Callable[[*Arguments], R]:
        for name, arguments in claims.items():
            if name in EVALUATIONS:
                raise ValueError(f"{name} has two evaluations")
            EVALUATIONS[name] = Evaluation(_call(function, arguments), claim_class)
        return function

    return enter


def _call(function: Callable[[*Arguments], R], arguments: tuple[*Arguments]) -> Callable[[], R]:
    return lambda: function(*arguments)
