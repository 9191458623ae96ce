"""One pass of a model over a batch on one device: what the kinds of system have in common."""

from collections.abc import Iterable
from dataclasses import dataclass

__all__ = ["Step", "add_by_name"]


@dataclass(frozen=True, kw_only=True)
class Step:
    """Time, energy and memory of one pass; ``ms_by_part`` has an entry ``head``."""

    scheme: str
    kv_format: str
    seconds: float
    formula_seconds: float | None = None  # of an accelerator: the bound beside ``seconds``
    # Of an accelerator ``seconds`` are those of "programs" or of a "formula"; of a server they are
    # "predicted" by a model of its resources with fitted constants.
    kind: str = "predicted"
    pass_batch: int | None = None  # sequences of a pass, where they take turns
    utilisation: dict[str, float]
    bound: str
    ms_by_part: dict[str, float]
    joules_by_part: dict[str, float]
    weights: float  # bytes
    cache: float
    capacity: float
    fits: bool
    remarks: tuple[str, ...]


def add_by_name(parts: Iterable[tuple[str, float]]) -> dict[str, float]:
    """Add what has the same name: products of several shapes, such as those of experts."""
    found: dict[str, float] = {}
    for name, value in parts:
        found[name] = found.get(name, 0.0) + value
    return found
