"""Ranges of rows that instructions touch, and hazards where two of them overlap."""

from collections.abc import Callable, Iterable, Sequence
from itertools import combinations, product
from typing import Any, NamedTuple

from tilewright.golden.machine.instruction import (
    BaseInstruction,
    scalar_operands,
    works_on_scalars,
)
from tilewright.golden.machine.loops import walk
from tilewright.golden.params.machine import SCALARS, Error, MachineMemory, MachineParams


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


_SIZES = (
    *("rows", "stride", "elements", "inputs", "outputs", "groups", "tiles", "token_tiles"),
    *("keep", "count", "body"),
)


def bad_size(params: MachineParams, x: BaseInstruction) -> bool:
    """Whether a size is 0, of which instructions on scalars have none, or a loop is too long."""
    if x.opcode.name == "VECTOR" and works_on_scalars(x):
        return False
    if any(x.fields.get(name) == 0 for name in _SIZES):
        return True
    return x.opcode.name == "LOOP" and x["body"] > params.longest_loop


def bad_address(params: MachineParams, x: BaseInstruction, touched: Iterable[Extent]) -> bool:
    """Whether a range ends after the last row of its memory, or no such scalar register exists."""
    if any(extent.end > params.depth(extent.memory) for extent in touched):
        return True
    return x.opcode.name == "VECTOR" and max(scalar_operands(x), default=0) >= SCALARS


class Ranges(NamedTuple):
    """Rows that an instruction reads and writes."""

    reads: list[Extent]
    writes: list[Extent]

    def conflict(self, *, in_place: bool) -> str | None:
        """Why the instruction's result depends on its timing.

        ``in_place``: it reads a row before it writes it, so both ranges may be the same.
        """
        for one, other in product(self.reads, self.writes):
            if one.overlaps(other) and not (in_place and one == other):
                return f"reads {one} and writes {other}"
        for one, other in combinations(self.writes, 2):
            if one.overlaps(other):
                return f"writes {one} and {other}"
        return None


def find_hazard(
    program: Sequence[BaseInstruction],
    settings: Any,
    check: Callable[[Any, Any], Error],
    ranges: Callable[[Any, Any], Ranges],
    expand: Callable[[Any, Any], Iterable[Any]] = lambda _, x: (x,),
) -> Hazard | None:
    """The first instruction whose result depends on timing; None if there is none.

    An instruction that stops the machine ends the program. ``settings`` are the initial ones;
    functions take settings and an instruction; ``expand`` gives its parts.
    """
    for number, x, problem in walk(program):
        if problem:
            return Hazard(number, f"loop, {problem}")
        if check(settings, x) is not Error.NONE:
            return None
        for part in expand(settings, x):
            if check(settings, part) is not Error.NONE:
                return None
            in_place = part.opcode.name == "VECTOR" and not part.vector.operation.attends
            problem = ranges(settings, part).conflict(in_place=in_place)
            if problem:
                return Hazard(number, f"{part.opcode.name.lower()}, {problem}")
        if x.opcode.name == "HALT":
            return None
        settings = settings.after(x)
    return None
