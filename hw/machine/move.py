"""Common to loads and stores: their command, the lines of their rows, loads under way."""

from enum import IntEnum
from itertools import pairwise
from typing import Any

from amaranth import Module, Signal, Value
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


def under_way(
    m: Module, name: str, loads: int, given: Any, push: Value, pop: Value, count: Value
) -> list[Any]:
    """``given`` at every ``push``, of the ``count`` loads under way, the oldest first.

    ``pop``: the oldest one ends in this cycle.
    """
    found = [Signal.like(given, name=f"{name}{k}") for k in range(loads)]
    with m.If(pop):
        m.d.sync += [older.eq(newer) for older, newer in pairwise(found)]
    for k, slot in enumerate(found):
        with m.If(push & (count - pop == k)):
            m.d.sync += slot.eq(given)
    return found
