"""The full-adder cell of a technology, and which adders take their operands inverted.

Some cells invert their results. A full adder of inverted bits gives inverted bits, so a cell that
inverts both results needs no inverters if the next full adder takes these bits as they are, and
gives true ones. Adders choose one by one, operands before results, what leaves fewer inverters at
their inputs; that is not the best for all of them together, but near it in trees.
"""

import json
from graphlib import TopologicalSorter
from typing import Any, NamedTuple

from tilewright.synth.function import parse_function, truth_table
from tilewright.synth.technology import Cell, Technology

_SUM, _CARRY, _ALL = 0b10010110, 0b11101000, 0b11111111


class FullAdder(NamedTuple):
    """A cell with a sum and a carry, inverted or not."""

    cell: Cell
    outputs: tuple[tuple[str, bool], ...]  # of each output: port of $fa, whether inverted

    @property
    def gives_inverse(self) -> bool:
        return all(inverse for _, inverse in self.outputs)


def find_full_adder(technology: Technology) -> FullAdder | None:
    """The technology's smallest full adder."""
    roles = {
        _SUM: ("Y", False),
        _SUM ^ _ALL: ("Y", True),
        _CARRY: ("X", False),
        _CARRY ^ _ALL: ("X", True),
    }
    for cell in sorted(technology.cells.values(), key=lambda cell: (cell.area, cell.name)):
        if cell.state or cell.weak or len(cell.inputs) != 3 or len(cell.outputs) != 2:
            continue
        pins = tuple(cell.inputs)
        tables = [truth_table(parse_function(f), pins) for f in cell.outputs.values()]
        outputs = tuple(roles[table] for table in tables if table in roles)
        if len({port for port, _ in outputs}) == 2:
            return FullAdder(cell, outputs)
    return None


_Bit = int | str  # a net, or a constant

# Cost of a true bit from a gate or a register, an inverter being 1: both give inverted ones for
# less.
_TRUE_FROM_GATE = 0.5


class _Operand(NamedTuple):
    """Source of a bit: ``result`` or its inverse, of ``adder`` unless that is None."""

    adder: str | None
    result: _Bit
    inverse: bool


def inverted_adders(design: str) -> set[str]:
    """Names of the ``$fa`` cells that take inverted operands; ``design`` is Yosys's JSON."""
    modules = json.loads(design)["modules"].values()
    return {name for module in modules for name in _of_module(module["cells"])}


def _of_module(cells: dict[str, Any]) -> set[str]:
    operands = _operands(cells)
    # Lists: the order of a set differs between processes.
    order = TopologicalSorter(
        {name: [x.adder for x in given if x.adder] for name, given in operands.items()}
    )
    inverted: set[str] = set()
    inverters: set[_Bit] = set()  # results followed by an inverter
    for name in order.static_order():
        given = operands[name]
        # The cell's result is inverted where its operands are not.
        true = {x.result for x in given if x.adder and (x.adder in inverted) == x.inverse}
        inverse = {x.result for x in given if x.adder and (x.adder in inverted) != x.inverse}
        gates = sum(x.adder is None and isinstance(x.result, int) for x in given)
        if len(inverse - inverters) <= len(true - inverters) + _TRUE_FROM_GATE * gates:
            inverted.add(name)
            inverters |= inverse
        else:
            inverters |= true
    return inverted


def _operands(cells: dict[str, Any]) -> dict[str, list[_Operand]]:
    adders = {n: c["connections"] for n, c in cells.items() if c["type"] == "$fa"}
    giver = {pins[port][0]: name for name, pins in adders.items() for port in ("X", "Y")}
    gates = [c["connections"] for c in cells.values() if c["type"] == "$_NOT_"]
    inverse_of = {pins["Y"][0]: pins["A"][0] for pins in gates}

    def operand(bit: _Bit) -> _Operand:
        inverse = False
        while bit in inverse_of:
            bit, inverse = inverse_of[bit], not inverse
        return _Operand(giver.get(bit), bit, inverse)

    return {n: [operand(pins[port][0]) for port in "ABC"] for n, pins in adders.items()}
