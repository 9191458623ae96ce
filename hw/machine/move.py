"""Common to loads and stores: their command, and the lines of their rows."""

from enum import IntEnum

from amaranth import Value
from amaranth.lib import data

from tilewright.golden.params.machine import (
    LINE_FIELD,
    ROW_FIELD,
    SIZE_FIELD,
    MachineMemory,
    MachineParams,
)


def move_layout(memories: type[MachineMemory]) -> data.StructLayout:
    """Operands of a load or store."""
    return data.StructLayout(
        {"memory": memories, "stride": 8, "row": ROW_FIELD, "rows": SIZE_FIELD, "line": LINE_FIELD}
    )


def lines_of(params: MachineParams, memory: IntEnum, rows: Value) -> Value:
    """Lines that hold ``rows`` rows."""
    bits = params.row_bits(memory)
    if bits >= params.line_bits:
        return rows * (bits // params.line_bits)
    each = params.line_bits // bits  # a power of two
    return (rows + (each - 1)) >> (each.bit_length() - 1)
