"""Hazards within an instruction, which the hardware does not check.

An instruction reads and writes its buffers row by row, so the result of one that overwrites its own
operands would depend on timing. Between instructions there are no hazards: those that run at the
same time touch different regions.
"""

from collections.abc import Sequence

from tilewright.golden.anda_machine.isa import Formats, Instruction, check, extents
from tilewright.golden.machine.extent import Hazard, Ranges, find_hazard
from tilewright.golden.machine.instruction import works_on_scalars
from tilewright.golden.params.anda_machine import AndaParams, Opcode
from tilewright.golden.params.vector import Operation


def first_hazard(params: AndaParams, program: Sequence[Instruction]) -> Hazard | None:
    """The first instruction whose result depends on timing, and why; None if there is none."""
    return find_hazard(
        program,
        Formats(),
        lambda formats, x: check(params, formats, x),
        lambda formats, x: ranges(params, formats, x),
    )


def ranges(params: AndaParams, formats: Formats, x: Instruction) -> Ranges:
    touched = extents(params, formats, x)
    match x.opcode:
        case Opcode.LOAD:
            return Ranges([], touched)
        case Opcode.STORE:
            return Ranges(touched, [])
        case Opcode.VECTOR if Operation(x["operation"]).reduces or works_on_scalars(x):
            return Ranges(touched, [])
    return Ranges(touched[:-1], touched[-1:])
