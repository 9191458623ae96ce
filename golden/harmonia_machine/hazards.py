"""Hazards within an instruction, which the hardware does not check.

An instruction reads and writes its memories row by row, so the result of one that overwrites its
own operands would depend on timing. Between instructions there are no hazards: those that run at
the same time touch different regions.
"""

from collections.abc import Iterator, Sequence
from itertools import combinations
from typing import NamedTuple

from tilewright.golden.harmonia_machine.isa import (
    Instruction,
    Settings,
    check,
    expand,
    extents,
)
from tilewright.golden.machine.extent import Extent, Hazard, read_after_write
from tilewright.golden.machine.instruction import works_on_scalars
from tilewright.golden.machine.loops import walk
from tilewright.golden.params.harmonia_machine import (
    Conversion,
    HarmoniaParams,
    Memory,
    Opcode,
    Operand,
)
from tilewright.golden.params.machine import Error
from tilewright.golden.params.vector import Operation

_ACTIVATIONS: tuple[Memory, ...] = (Memory.MANTISSAS, Memory.SIGNS, Memory.EXPONENTS)
_METADATA: tuple[Memory, ...] = (Memory.OPERAND_SIGNS, Memory.OPERAND_EXPONENTS)
_SCALES: tuple[Memory, ...] = (Memory.SCALES,)


class _Ranges(NamedTuple):
    """Rows that an instruction reads and writes."""

    reads: list[Extent]
    writes: list[Extent]


def first_hazard(params: HarmoniaParams, program: Sequence[Instruction]) -> Hazard | None:
    """The first instruction whose result depends on timing, and why; None if there is none.

    One that stops the machine ends the program.
    """
    for number, x, problem in _parts(params, program):
        if problem:
            return Hazard(number, f"loop, {problem}")
        if check(params, x) is not Error.NONE:
            return None
        problem = _within(x, ranges(params, x))
        if problem:
            return Hazard(number, f"{x.opcode.name.lower()}, {problem}")
        if x.opcode is Opcode.HALT:
            return None
    return None


def _parts(
    params: HarmoniaParams, program: Sequence[Instruction]
) -> Iterator[tuple[int, Instruction, str | None]]:
    """Instructions by number, tiled GEMMs expanded; and why a loop cannot begin, if it cannot."""
    settings = Settings()
    for number, x, problem in walk(program):
        if x.opcode is Opcode.CONFIGURE:
            settings = Settings.of(x)
        if x.opcode is Opcode.TILED_GEMM and check(params, x) is Error.NONE:
            yield from ((number, part, None) for part in expand(params, settings, x))
        else:
            yield number, x, problem


def _within(x: Instruction, now: _Ranges) -> str | None:
    problem = read_after_write(now.reads, now.writes, in_place=x.opcode is Opcode.VECTOR)
    if problem:
        return problem
    for one, other in combinations(now.writes, 2):
        if one.overlaps(other):
            return f"writes {one} and {other}"
    return None


def ranges(params: HarmoniaParams, x: Instruction) -> _Ranges:
    touched = extents(params, x)
    match x.opcode:
        case Opcode.LOAD | Opcode.CLEAR:
            return _Ranges([], touched)
        case Opcode.STORE | Opcode.LEARN:
            return _Ranges(touched, [])
        case Opcode.VECTOR if Operation(x["operation"]).reduces or works_on_scalars(x):
            return _Ranges(touched, [])
        case Opcode.VECTOR:
            return _Ranges(touched[:-1], touched[-1:])
        case Opcode.CONVERT:
            metadata = _ACTIVATIONS if x["conversion"] == Conversion.ACTIVATIONS else _METADATA
            return _Ranges(touched[:1], _everywhere(touched[1:], metadata))
        case Opcode.GEMM:
            metadata = _SCALES if x["operand"] == Operand.WEIGHTS else _METADATA
            reads = [e for e in touched if e.memory is not Memory.FP16]
            writes = [e for e in touched if e.memory is Memory.FP16]
            return _Ranges(_everywhere(_everywhere(reads, metadata), _ACTIVATIONS), writes)
    return _Ranges([], [])


def _everywhere(touched: list[Extent], memories: tuple[Memory, ...]) -> list[Extent]:
    """Expand rows of signs or mantissas to those of all memories with the same rows."""
    stands = Memory.MANTISSAS if memories is _ACTIVATIONS else Memory.OPERAND_SIGNS
    return [
        Extent(memory, e.first, e.rows)
        for e in touched
        for memory in (memories if e.memory is stands else (e.memory,))
    ]
