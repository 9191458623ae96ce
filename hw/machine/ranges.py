"""Ranges of rows that an instruction touches: where they end, and the regions they lie in."""

from collections.abc import Iterable
from functools import reduce
from operator import or_
from typing import Any

from amaranth import Cat, Signal, Value, ValueLike

from tilewright.golden.params.machine import ROW_FIELD, MachineParams

END_BITS = 36  # holds the sum of a row and any product of sizes


class Range:
    """Registers of the first row of a range and of the row after its last, 0 if there is none.

    Where instructions are measured in several cycles (``MachineParams.measure_cycles``), the number
    of rows is in a register for one of them.
    """

    def __init__(self, params: MachineParams, name: str):
        self.first = Signal(ROW_FIELD, name=f"{name}_first")
        self.end = Signal(END_BITS, name=f"{name}_end")
        self.rows = Signal(END_BITS, name=f"{name}_rows") if params.measure_cycles > 1 else None

    def covers(self, first: ValueLike, rows: ValueLike) -> list:
        """Statements: ``rows`` rows from ``first`` on."""
        if self.rows is not None:
            return [self.first.eq(first), self.rows.eq(rows)]
        return [self.first.eq(first), self.end.eq(Value.cast(first) + rows)]

    def is_empty(self) -> list:
        """Statements: no rows."""
        return [self.end.eq(0)] if self.rows is None else [self.first.eq(0), self.rows.eq(0)]

    def settles(self) -> list:
        """Statements of the second cycle, if there is one."""
        return [] if self.rows is None else [self.end.eq(self.first + self.rows)]


def regions_of(params: MachineParams, memory: Any, ranges: Iterable[Range]) -> Value:
    """The regions of a memory that the ranges lie in, a bit each."""
    size, count = params.region_rows(memory), len(params.region_depths(memory))
    touched = (
        Cat((x.end > k * size) & (x.first < (k + 1) * size) for k in range(count)) for x in ranges
    )
    return reduce(or_, touched)
