"""Ranges of rows that instructions touch, and hazards where two of them overlap."""

from collections.abc import Iterable
from itertools import product
from typing import NamedTuple

from tilewright.golden.params.machine import MachineMemory, MachineParams


class Hazard(NamedTuple):
    """Why a program's result depends on timing."""

    instruction: int  # its number
    reason: str  # its opcode, and the ranges

    def __str__(self) -> str:
        return f"instruction {self.instruction}, {self.reason}"


class Extent(NamedTuple):
    """``rows`` rows of a memory from ``first`` on, ``stride`` apart."""

    memory: MachineMemory
    first: int
    rows: int
    stride: int = 1

    @property
    def end(self) -> int:
        """The row after the last."""
        return self.first + (self.rows - 1) * self.stride + 1

    def overlaps(self, other: "Extent") -> bool:
        return self.memory is other.memory and self.first < other.end and other.first < self.end

    def __str__(self) -> str:
        return f"rows {self.first}..{self.end - 1} of {self.memory.name.lower()}"


def out_of_range(params: MachineParams, touched: Iterable[Extent]) -> bool:
    """Whether one of them ends after the last row of its memory."""
    return any(extent.end > params.depth(extent.memory) for extent in touched)


def read_after_write(
    reads: Iterable[Extent], writes: Iterable[Extent], *, in_place: bool
) -> str | None:
    """Why one instruction's result depends on its timing.

    ``in_place``: it reads a row before it writes it, so both may be the same range.
    """
    for one, other in product(reads, writes):
        if one.overlaps(other) and not (in_place and one == other):
            return f"reads {one} and writes {other}"
    return None
