"""What a program must not do and the hardware does not check.

Instructions read and write their memories row by row, so the result of one that reads what it has
written would depend on its timing; and loads of weights and scales run in the background.
"""

from collections.abc import Iterable
from itertools import product

from golden.anda_system.isa import Extent, Formats, Instruction, extents, judge
from golden.params.anda_system import AndaParams, Memory, Opcode
from golden.params.anda_vector import Operation
from golden.params.program import Error
from golden.program.instruction import works_on_scalars


def first_hazard(params: AndaParams, program: Iterable[Instruction]) -> str | None:
    """The first instruction whose result depends on timing, and why; None if there is none.

    One that stops the machine ends the program.
    """
    formats = Formats()
    coming: list[Extent] = []  # rows that a load in the background brings
    for number, x in enumerate(program):
        if judge(params, formats, x) is not Error.NONE:
            return None
        reads, writes = _split(x, extents(params, formats, x))
        name = f"instruction {number}, {x.opcode.name.lower()},"
        for one, other in product(reads, writes):
            # A vector operation reads a row before it writes it.
            same = x.opcode is Opcode.VECTOR and one == other
            if _overlap(one, other) and not same:
                return f"{name} reads {_rows(one)} and writes {_rows(other)}"
        for one, other in product(reads, coming):
            if _overlap(one, other):
                return f"{name} reads {_rows(one)} without a wait for the load of {_rows(other)}"
        match x.opcode:
            case Opcode.CONFIGURE:
                formats = Formats(x["source_mantissa"], x["result_mantissa"])
            case Opcode.LOAD | Opcode.STORE | Opcode.WAIT:
                # Whatever needs the memory port waits for the load before it.
                background = x.opcode is Opcode.LOAD and Memory(x["memory"]).background
                coming = writes if background else []
            case Opcode.HALT:
                return None
    return None


def _split(x: Instruction, touched: list[Extent]) -> tuple[list[Extent], list[Extent]]:
    """Ranges that an instruction reads, and those that it writes."""
    match x.opcode:
        case Opcode.LOAD:
            return [], touched
        case Opcode.STORE:
            return touched, []
        case Opcode.VECTOR if Operation(x["operation"]).reduces or works_on_scalars(x):
            return touched, []
    return touched[:-1], touched[-1:]


def _overlap(a: Extent, b: Extent) -> bool:
    return a.memory is b.memory and a.first < b.end and b.first < a.end


def _rows(extent: Extent) -> str:
    return f"rows {extent.first}..{extent.end - 1} of {extent.memory.name.lower()}"
