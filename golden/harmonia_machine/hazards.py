"""Hazards within an instruction, which the hardware does not check.

An instruction reads and writes its memories row by row, so the result of one that overwrites its
own operands would depend on timing. Between instructions there are no hazards: those that run at
the same time touch different regions.
"""

from collections.abc import Sequence

from tilewright.golden.harmonia_machine.isa import Instruction, Settings, check, expand, extents
from tilewright.golden.machine.extent import Extent, Hazard, Ranges, find_hazard
from tilewright.golden.machine.instruction import works_on_scalars
from tilewright.golden.params.harmonia_machine import (
    Conversion,
    HarmoniaParams,
    Memory,
    Opcode,
    Operand,
)
from tilewright.golden.params.vector import Operation

_ACTIVATIONS: tuple[Memory, ...] = (Memory.MANTISSAS, Memory.SIGNS, Memory.EXPONENTS)
_METADATA: tuple[Memory, ...] = (Memory.OPERAND_SIGNS, Memory.OPERAND_EXPONENTS)
_SCALES: tuple[Memory, ...] = (Memory.SCALES,)


def first_hazard(params: HarmoniaParams, program: Sequence[Instruction]) -> Hazard | None:
    """The first instruction whose result depends on timing, and why; None if there is none."""
    return find_hazard(
        program,
        Settings(),
        lambda _, x: check(params, x),
        lambda _, x: ranges(params, x),
        lambda settings, x: expand(params, settings, x) if x.opcode is Opcode.TILED_GEMM else (x,),
    )


def ranges(params: HarmoniaParams, x: Instruction) -> Ranges:
    touched = extents(params, x)
    match x.opcode:
        case Opcode.LOAD | Opcode.CLEAR:
            return Ranges([], touched)
        case Opcode.STORE | Opcode.LEARN:
            return Ranges(touched, [])
        case Opcode.VECTOR if Operation(x["operation"]).reduces or works_on_scalars(x):
            return Ranges(touched, [])
        case Opcode.VECTOR:
            return Ranges(touched[:-1], touched[-1:])
        case Opcode.CONVERT:
            metadata = _ACTIVATIONS if x["conversion"] == Conversion.ACTIVATIONS else _METADATA
            return Ranges(touched[:1], _everywhere(touched[1:], metadata))
        case Opcode.GEMM:
            metadata = _SCALES if x["operand"] == Operand.WEIGHTS else _METADATA
            reads = [e for e in touched if e.memory is not Memory.FP16]
            writes = [e for e in touched if e.memory is Memory.FP16]
            return Ranges(_everywhere(_everywhere(reads, metadata), _ACTIVATIONS), writes)
    return Ranges([], [])


def _everywhere(touched: list[Extent], memories: tuple[Memory, ...]) -> list[Extent]:
    """Expand rows of signs or mantissas to those of all memories with the same rows."""
    stands = Memory.MANTISSAS if memories is _ACTIVATIONS else Memory.OPERAND_SIGNS
    return [
        Extent(memory, e.first, e.rows)
        for e in touched
        for memory in (memories if e.memory is stands else (e.memory,))
    ]
