"""Hazards within an instruction, which the hardware does not check.

An instruction reads and writes its buffers row by row, so the result of one that overwrites its own
operands would depend on timing. Between instructions there are no hazards: those that run at the
same time touch different regions.
"""

from collections.abc import Sequence

from tilewright.golden.anda_machine.isa import Formats, Instruction, check, extents
from tilewright.golden.machine.extent import Extent, Hazard, read_after_write
from tilewright.golden.machine.instruction import works_on_scalars
from tilewright.golden.machine.loops import walk
from tilewright.golden.params.anda_machine import AndaParams, Opcode
from tilewright.golden.params.machine import Error
from tilewright.golden.params.vector import Operation


def first_hazard(params: AndaParams, program: Sequence[Instruction]) -> Hazard | None:
    """The first instruction whose result depends on timing, and why; None if there is none.

    One that stops the machine ends the program.
    """
    formats = Formats()
    for number, x, problem in walk(program):
        if problem:
            return Hazard(number, f"loop, {problem}")
        if check(params, formats, x) is not Error.NONE:
            return None
        reads, writes = split(x, extents(params, formats, x))
        in_place = x.opcode is Opcode.VECTOR and not Operation(x["operation"]).attends
        problem = read_after_write(reads, writes, in_place=in_place)
        if problem:
            return Hazard(number, f"{x.opcode.name.lower()}, {problem}")
        match x.opcode:
            case Opcode.CONFIGURE:
                formats = Formats(x["source_mantissa"], x["result_mantissa"])
            case Opcode.HALT:
                return None
    return None


def split(x: Instruction, touched: list[Extent]) -> tuple[list[Extent], list[Extent]]:
    """Ranges that an instruction reads, and those that it writes."""
    match x.opcode:
        case Opcode.LOAD:
            return [], touched
        case Opcode.STORE:
            return touched, []
        case Opcode.VECTOR if Operation(x["operation"]).reduces or works_on_scalars(x):
            return touched, []
    return touched[:-1], touched[-1:]
