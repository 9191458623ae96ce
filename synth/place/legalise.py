"""Cells into rows without overlap, each as near to where it was as can be.

The method is Abacus (P. Spindler, U. Schlichtmann, F. M. Johannes, ISPD 2008): from left to right,
each cell goes into the row where it costs least, and cells that touch move together to where the
sum of their squared distances is least.
"""

from dataclasses import dataclass, field

import numpy as np

from tilewright.synth.place.floorplan import Floorplan
from tilewright.synth.place.wiring import Floats, Ints

__all__ = ["legalise"]

_TRIED = 24  # rows that may be looked at beyond the best one found


@dataclass
class _Row:
    """Clusters of cells that touch: left edge, width, cells, and the sum of wished left edges."""

    used: float = 0.0
    clusters: list[list[float]] = field(default_factory=list)  # x, width, count, sum
    cells: list[int] = field(default_factory=list)


def legalise(
    cells: Ints, widths: Floats, x: Floats, y: Floats, floorplan: Floorplan
) -> tuple[Floats, Floats]:
    """Centres of ``cells`` (indices into the arrays) in rows of the floorplan's core."""
    core, rows = floorplan.core, [_Row() for _ in range(floorplan.rows)]
    row_height = core.height / floorplan.rows
    if widths[cells].sum() > core.width * floorplan.rows:
        raise ValueError("the cells do not fit into the rows: ask for a lower utilisation")
    for cell in cells[np.argsort(x[cells] - widths[cells] / 2, kind="stable")]:
        width, wish = float(widths[cell]), float(x[cell] - widths[cell] / 2)
        nearest = min(max(int((y[cell] - core.y) / row_height), 0), len(rows) - 1)
        best_cost, best = np.inf, -1
        for step in range(2 * len(rows)):
            k = nearest + (step + 1) // 2 * (1 if step % 2 else -1)
            away = abs(core.y + (k + 0.5) * row_height - y[cell])
            if best >= 0 and (away**2 > best_cost or step > _TRIED):
                break
            if not 0 <= k < len(rows) or rows[k].used + width > core.width + 1e-9:
                continue
            cost = (_trial(rows[k], width, wish, core.x, core.width) - wish) ** 2 + away**2
            if cost < best_cost:
                best_cost, best = cost, k
        if best < 0:
            raise ValueError("a cell finds no row with room: ask for a lower utilisation")
        _append(rows[best], int(cell), width, wish, core.x, core.width)
    new_x, new_y = x.copy(), y.copy()
    for k, row in enumerate(rows):
        left = iter(row.cells)
        for start, _, count, _ in row.clusters:
            at = start
            for _ in range(int(count)):
                cell = next(left)
                new_x[cell] = at + widths[cell] / 2
                new_y[cell] = core.y + (k + 0.5) * row_height
                at += widths[cell]
    return new_x, new_y


def _within(x: float, width: float, low: float, room: float) -> float:
    return min(max(x, low), low + room - width)


def _trial(row: _Row, width: float, wish: float, low: float, room: float) -> float:
    """The left edge that a cell would get as the row's last one."""
    x, whole, count, total = _within(wish, width, low, room), width, 1.0, wish
    for start, cluster, members, wishes in reversed(row.clusters):
        if start + cluster <= x:
            break
        total = wishes + total - count * cluster
        count, whole = count + members, whole + cluster
        x = _within(total / count, whole, low, room)
    return x + whole - width


def _append(row: _Row, cell: int, width: float, wish: float, low: float, room: float) -> None:
    x, whole, count, total = _within(wish, width, low, room), width, 1.0, wish
    while row.clusters and row.clusters[-1][0] + row.clusters[-1][1] > x:
        _, cluster, members, wishes = row.clusters.pop()
        total = wishes + total - count * cluster
        count, whole = count + members, whole + cluster
        x = _within(total / count, whole, low, room)
    row.clusters.append([x, whole, count, total])
    row.cells.append(cell)
    row.used += width
