"""Sizes and formats that a paper states, read from the parameter objects of our hardware.

A claim says where the size is (``of``) and how it follows from the fields there (``size``):
``of = "deca:paper"`` and ``size = "sqq_lines * line_bytes"``. What is read is what the hardware is
built from, so another parameter is another answer.
"""

from collections.abc import Callable, Iterator, Mapping
from fractions import Fraction
from importlib import import_module
from typing import Any

from tilewright.golden.params.formats import BlockFormat, float_format
from tilewright.golden.params.harmonia import CacheParams
from tilewright.golden.params.names import unknown
from tilewright.golden.params.resolve import resolve
from tilewright.golden.params.sparamx import ElementType, WeightFormat
from tilewright.sim.accelerator import ACCELERATORS
from tilewright.sim.claims.classes import ClaimClass
from tilewright.sim.deca_stream import Integration
from tilewright.sim.evaluations.expression import value_of
from tilewright.sim.evaluations.registry import Answer, evaluation
from tilewright.sim.models import resolve_model
from tilewright.sim.scheme import resolve_weight_scheme
from tilewright.sim.xeon import SYSTEMS

__all__ = ["KINDS", "parameter", "read", "source"]

# "model llama-3-8b" names a model; a word alone is a block of the catalogue.
KINDS: dict[str, Callable[[str], Any]] = {
    "accelerator": lambda name: ACCELERATORS[name](),
    "block-format": lambda text: BlockFormat(
        **dict(zip(("group", "mantissa_bits"), map(int, text.split("x")), strict=True))
    ),
    "cache": lambda name: CacheParams(),
    "constants": lambda name: import_module(f"tilewright.{name}"),
    "format": float_format,
    "integration": lambda name: Integration(),
    "model": resolve_model,
    "scheme": resolve_weight_scheme,
    "server": lambda name: SYSTEMS[name],
    "weights": lambda name: WeightFormat(element=ElementType(name)),
}


class _Fields(Mapping[str, Any]):
    """The public attributes of an object as names; ``this`` is the object itself."""

    def __init__(self, owner: Any):
        self.owner = owner

    def __getitem__(self, name: str) -> Any:
        if name == "this":
            return self.owner
        if name.startswith("_") or not hasattr(self.owner, name):
            raise KeyError(name)
        return getattr(self.owner, name)

    def __contains__(self, name: object) -> bool:
        return name == "this" or (
            isinstance(name, str) and not name.startswith("_") and hasattr(self.owner, name)
        )

    def __iter__(self) -> Iterator[str]:
        return (name for name in dir(self.owner) if name in self)

    def __len__(self) -> int:
        return sum(1 for _ in self)


def source(of: str) -> Any:
    """Return the object that ``of`` names: a block, or one of ``KINDS`` and a name."""
    kind, _, name = of.partition(" ")
    if not name:
        return resolve(of)
    if kind not in KINDS:
        raise ValueError(unknown("kind of parameters", kind, KINDS))
    return KINDS[kind](name)


def read(of: str, size: str) -> Any:
    """Return the value of an expression over the fields of an object."""
    return value_of(size, _Fields(source(of)))


@evaluation(ClaimClass.PARAMETER)
def parameter(of: str, size: str) -> Answer:
    """Return a size or a choice of our hardware, or of a machine that our results stand for."""
    return _plain(read(of, size))


def _plain(found: Any) -> Answer:
    """Return numbers, truth values, lists of them, and the names of everything else."""
    if isinstance(found, list | tuple):
        return [_plain(part) for part in found]
    if isinstance(found, bool | int | float):
        return found
    return float(found) if isinstance(found, Fraction) else str(found)
