"""The die of a block: memories in columns at its left and right edge, rows of cells between them.

Memories of one size stand together on one side.

Bits of ports lie around the edge at equal distances: first in the order of the ports, then in the
order in which the cells that they lead to lie around the middle of the die.
"""

import math
from dataclasses import dataclass

import numpy as np

from tilewright.synth.netlist import Netlist
from tilewright.synth.place.rules import Rules
from tilewright.synth.place.wires import Floats, Ints, Wiring


@dataclass(frozen=True)
class Box:
    """A rectangle; all in um."""

    x: float
    y: float
    width: float
    height: float


@dataclass(frozen=True)
class Floorplan:
    """Where cells may lie, where memories lie by their place in the netlist, where ports are."""

    width: float
    height: float
    rows: int
    core: Box  # of the rows
    macros: dict[int, Box]
    port_x: Floats
    port_y: Floats

    @property
    def area(self) -> float:
        """Of the whole die, um2."""
        return self.width * self.height


def plan_floor(netlist: Netlist, wiring: Wiring, rules: Rules, utilisation: float) -> Floorplan:
    """A die about as wide as high, whose rows are filled to ``utilisation``."""
    areas = (i.cell.area for i in netlist.instances if not i.cell.memory_bits)
    cells = math.fsum(areas) / utilisation
    macros = [k for k, i in enumerate(netlist.instances) if i.cell.memory_bits]
    sides = {k: math.sqrt(netlist.instances[k].cell.area) for k in macros}
    whole = math.sqrt(cells + sum(side**2 for side in sides.values()))
    tallest = max(sides.values(), default=0.0)
    rows = max(1, math.ceil(max(whole, tallest) / rules.row_height))
    height = rows * rules.row_height
    core_width = max(cells / height, rules.site_width)
    columns: list[tuple[float, list[int]]] = []  # width, memories from the bottom up
    for k in sorted(macros, key=lambda k: (-sides[k], netlist.instances[k].name)):
        for n, (width, column) in enumerate(columns):
            if sum(sides[other] for other in column) + sides[k] <= height:
                columns[n] = (max(width, sides[k]), [*column, k])
                break
        else:
            columns.append((sides[k], [k]))
    left, right = _sides([(width, sides[column[0]], column) for width, column in columns])
    left_width = sum(width for width, _ in left)
    boxes: dict[int, Box] = {}
    x = 0.0
    for width, column in left:
        boxes |= _stack(column, sides, x, height)
        x += width
    x += core_width
    for width, column in right:
        boxes |= _stack(column, sides, x, height)
        x += width
    core = Box(left_width, 0.0, core_width, height)
    port_x, port_y = around(np.arange(len(wiring.ports)), x, height)
    return Floorplan(x, height, rows, core, boxes, port_x, port_y)


def _sides(columns: list[tuple[float, float, list[int]]]) -> tuple[list, list]:
    """Columns at the left and at the right, with their widths.

    Columns of memories of the same size belong together, as the tables of an array do, and stand on
    one side; the next size stands on the other.
    """
    found: tuple[list, list] = ([], [])
    side, before = 1, None
    for width, size, column in columns:
        side = side if size == before else 1 - side
        before = size
        found[side].append((width, column))
    return found


def around(order: Ints, width: float, height: float) -> tuple[Floats, Floats]:
    """Places around a die for ports of this order, from the lower left corner up and right."""
    count = len(order)
    along = np.empty(count)
    along[order] = (np.arange(count) + 0.5) / max(1, count) * 2 * (width + height)
    top, right, bottom = height, height + width, 2 * height + width
    x = np.select(
        [along < top, along < right, along < bottom],
        [np.zeros(count), along - top, np.full(count, width)],
        width - (along - bottom),
    )
    y = np.select(
        [along < top, along < right, along < bottom],
        [along, np.full(count, height), height - (along - right)],
        0.0,
    )
    return x, y


def _stack(column: list[int], sides: dict[int, float], x: float, height: float) -> dict[int, Box]:
    """Memories one above the other, spread over the height."""
    gap = (height - sum(sides[k] for k in column)) / (len(column) + 1)
    boxes, y = {}, gap
    for k in column:
        boxes[k] = Box(x, y, sides[k], sides[k])
        y += sides[k] + gap
    return boxes
