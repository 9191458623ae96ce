"""Programs that stop with an error, on any accelerator."""

from collections.abc import Mapping
from typing import Any

import numpy as np

from tilewright.golden.params.machine import Error
from tilewright.golden.params.vector import OPERATION_BITS
from tilewright.verify.machine.accelerators import accelerator_of, bench_side

LINES = 64  # of external memory
BAD_LINE = 5
Programs = dict[str, tuple[list, Error]]  # by what is wrong with them: program, error


def settings(fields: Mapping[str, int]) -> str:
    """Fields as the assembler reads them."""
    return ", ".join(f"{name}={value}" for name, value in fields.items())


def move(memory: str, row: int, rows: int, name: str = "load", line: int = 0) -> str:
    """A load or store."""
    return f"{name} {memory}, row={row}, rows={rows}, line={line}"


def _common(tensors: str, weights: str) -> str:
    """Errors of every accelerator as lines of a table: of vector instructions and of the bus.

    The memories are one of ``tensors``, which stores, and one of ``weights``.
    """
    bad, scales = BAD_LINE, move("scales", 0, 1, line=BAD_LINE)
    return f"""
sum of nothing                 | size    | sum s0, r0, elements=0
scalar that is none            | address | add s0, s8, #1
sum into no scalar             | address | sum s8, r0, elements=1
load of a bad line             | bus     | {move(tensors, 0, 1, line=bad)}
load beyond the memory         | bus     | {move(tensors, 0, 1, line=LINES)}
bad line, then other work      | bus     | {move(weights, 0, 1, line=bad)} / add s0, s0, #1 / wait
bad line, then a store         | bus     | {scales} / {move(tensors, 0, 1, "store")}
store to a bad line            | bus     | {move(tensors, 0, 1, "store", line=bad)}
bad store, then a bad load     | bus     | {move(tensors, 0, 32, "store", line=bad)} / \
{move(weights, 0, 1, line=LINES)}
bad load, then a bad store     | bus     | {move(weights, 0, 64, line=bad)} / \
{move(tensors, 0, 1, "store", line=LINES)}
bad line, then no instruction  | bus     | {move(weights, 0, 64, line=bad)} / \
sum s0, r0, elements=0"""


def empty_memory(params: Any) -> np.ndarray:
    """Return the external memory of programs that stop."""
    return np.zeros(LINES * params.line_bytes, np.uint8)


def stopping_programs(
    params: Any, table: str, changed: Mapping[str, tuple[Any, str, int]], harmless: str
) -> Programs:
    """Programs of ``table``; instructions with a wrong field; invalid words; no halt.

    A line of the table is ``what is wrong | error | instruction / instruction``. ``changed`` has an
    instruction, a field and its wrong value; ``harmless`` is an instruction.
    """
    system, own = accelerator_of(params), bench_side(params)
    (halt,) = system.assemble("halt")
    programs: Programs = {}
    for line in (table.strip() + _common(own.TENSORS, own.WEIGHTS)).splitlines():
        name, error, text = (part.strip() for part in line.split("|"))
        program = system.assemble(text.replace(" / ", "\n"))
        programs[name] = [*program, halt], Error[error.upper()]
    (reduction,) = system.assemble("largest s0, r0, elements=4")
    wrong_fields = {
        "unknown operation": (reduction, "operation", (1 << OPERATION_BITS) - 1),
        "kind 3": (reduction, "a_kind", 3),
        "reduction of a scalar": (reduction, "a_kind", 1),
        **changed,
    }
    for name, (instruction, field, value) in wrong_fields.items():
        wrong = type(instruction)(instruction.opcode, instruction.fields | {field: value})
        programs[name] = [wrong], Error.OPERAND
    inner = "loop count=2\n" * 4 + "add s0, s0, #1\n" + "end\n" * 4
    programs["loop within three"] = system.assemble(inner), Error.LOOP
    crossing = "loop count=2, body=2\nloop count=2, body=2\nadd s0, s0, #1\nhalt"
    programs["loop that crosses another"] = system.assemble(crossing), Error.LOOP
    for name, fields in (
        ("no iterations", "count=0, body=1"),
        ("no body", "count=1, body=1"),
        ("a long body", f"count=1, body={params.longest_loop + 1}"),
    ):
        (loop,) = system.assemble(f"loop {fields}")
        wrong = {"body": 0} if name == "no body" else {}
        loop = type(loop)(loop.opcode, loop.fields | wrong)
        programs[f"loop with {name}"] = [loop, halt], Error.SIZE
    far = f"loop count=3, i1={1 << 14}\nlargest s0, r0+i1, elements=4\nend\nhalt"
    programs["index beyond the memory"] = system.assemble(far), Error.ADDRESS
    programs["empty memory"] = [0], Error.OPCODE
    programs["opcode 15"] = [15], Error.OPCODE
    programs["no halt"] = system.assemble(harmless) * params.instructions, Error.END
    return programs
