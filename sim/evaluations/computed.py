"""Figures and statements that follow from our other answers: their arithmetic is in the claim.

``computed`` and ``holds`` take an expression that calls the evaluations by name, such as
``scaled_vectors_gain("more-avx") > 1``, or takes our answer to another claim, ``ours(ID)``, or what
its paper prints, ``printed(ID)``.
"""

from collections.abc import Callable, Mapping
from typing import Any

from tilewright.golden.deca.cycles import expected_bubbles, expected_cycles
from tilewright.golden.params.deca import DecaParams, TileConfig
from tilewright.sim.calibration import constant
from tilewright.sim.claims import find_claim
from tilewright.sim.claims.classes import ClaimClass
from tilewright.sim.evaluations.expression import value_of
from tilewright.sim.evaluations.parameters import source
from tilewright.sim.evaluations.registry import EVALUATIONS, Answer, evaluation
from tilewright.sim.roofsurface import Surface, kernel
from tilewright.sim.scheme import PAPER_SCHEMES
from tilewright.sim.system import Server
from tilewright.sim.xeon import SYSTEMS

__all__ = ["NAMES", "answer_to", "computed", "holds"]


def answer_to(name: str) -> Any:
    """Return our answer to another claim."""
    claim = find_claim(name)
    return EVALUATIONS[claim.evaluate](**claim.arguments)


# What an expression may call beside the evaluations and the functions of arithmetic.
NAMES: dict[str, Any] = {
    "DecaParams": DecaParams,
    "PAPER_SCHEMES": PAPER_SCHEMES,
    "SYSTEMS": SYSTEMS,
    "Server": Server,
    "Surface": Surface,
    "TileConfig": TileConfig,
    "constant": constant,
    "expected_bubbles": lambda *given: float(expected_bubbles(*given)),
    "expected_cycles": lambda *given: float(expected_cycles(*given)),
    "kernel": lambda scheme, *rest, **more: kernel(source(f"scheme {scheme}"), *rest, **more),
    "of": source,
    "ours": answer_to,
    "printed": lambda name: find_claim(name).value,
}


class _Evaluations(Mapping[str, Callable[..., Any]]):
    """The evaluations as they are when an expression is worked out."""

    def __getitem__(self, name: str) -> Callable[..., Any]:
        return EVALUATIONS[name]

    def __iter__(self) -> Any:
        return iter(EVALUATIONS)

    def __len__(self) -> int:
        return len(EVALUATIONS)


def work_out(text: str, **names: Any) -> Any:
    """Return the value of an expression over ``names``, ``NAMES`` and the evaluations."""
    return value_of(text, names, NAMES, _Evaluations())


@evaluation(ClaimClass.IDENTITY)
def computed(text: str) -> Answer:
    """Return a figure that follows from others of ours by the arithmetic of ``text``."""
    found = work_out(text)
    return [float(part) for part in found] if isinstance(found, list | tuple) else float(found)


@evaluation(ClaimClass.BOUND)
def holds(text: str) -> bool:
    """Return whether our figures have the relation that ``text`` states."""
    return bool(work_out(text))
