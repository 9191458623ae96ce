"""A netlist with a place for every cell, and how it got there."""

from dataclasses import dataclass, field, replace
from functools import cached_property

import numpy as np

from tilewright.synth.netlist import Netlist
from tilewright.synth.place.analytic import STEPS, place_cells
from tilewright.synth.place.floorplan import Floorplan, around, plan_floor
from tilewright.synth.place.rules import Rules, load_rules
from tilewright.synth.place.timing import Timing
from tilewright.synth.place.wires import Floats, Ints, Wires, Wiring, wires_of, wiring_of
from tilewright.synth.technology import Technology

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
    """Centres of ``cells`` (indices into the arrays) in rows of the floorplan's core.

    The method is Abacus (P. Spindler, U. Schlichtmann, F. M. Johannes, ISPD 2008): from left to
    right, each cell goes into the row where it costs least, and cells that touch move together to
    where the sum of their squared distances is least.
    """
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


UTILISATION = 0.7  # of the rows by cells, before timing repair adds to them
_WINDOW, _PULL = 0.2, 4.0  # of slacks that count as urgent, and how much harder these nets pull


@dataclass(frozen=True)
class Layout:
    """Centres of all points (um): instances in the order of the netlist, then bits of ports."""

    netlist: Netlist
    technology: Technology
    rules: Rules
    floorplan: Floorplan
    x: Floats
    y: Floats

    @cached_property
    def wiring(self) -> Wiring:
        return wiring_of(self.netlist)

    @cached_property
    def wires(self) -> Wires:
        load = self.technology.output_load
        return wires_of(self.netlist, self.wiring, self.x, self.y, self.rules, load)

    @cached_property
    def timing(self) -> Timing:
        """With wires."""
        return Timing(self.netlist, self.technology, self.wiring, self.wires)

    @property
    def utilisation(self) -> float:
        """Of the rows by cells."""
        core = self.floorplan.core
        return (self.netlist.area - self.netlist.memory_area) / (core.width * core.height)

    def in_rows(self) -> "Layout":
        """The same with its cells in rows, without overlap."""
        cells = [k for k, i in enumerate(self.netlist.instances) if not i.cell.memory_bits]
        areas = [instance.cell.area for instance in self.netlist.instances]
        widths = np.array(areas) / self.rules.row_height
        count = len(areas)
        x, y = legalise(
            np.array(cells, dtype=np.int64), widths, self.x[:count], self.y[:count], self.floorplan
        )
        ports_x, ports_y = self.x[count:], self.y[count:]
        return replace(self, x=np.concatenate([x, ports_x]), y=np.concatenate([y, ports_y]))


def lay_out(
    netlist: Netlist,
    technology: Technology,
    utilisation: float = UTILISATION,
    steps: int = STEPS,
) -> Layout:
    """Place ``netlist``: memories at the edges, cells by wire length, then into rows."""
    if not 0 < utilisation <= 0.95:
        raise ValueError(f"utilisation must be above 0 and at most 0.95, not {utilisation:g}")
    rules, wiring = load_rules(technology.name), wiring_of(netlist)
    plan = plan_floor(netlist, wiring, rules, utilisation)
    first = _place(netlist, technology, plan, wiring, rules, steps // 2, None)
    port_x, port_y = _ports_near_cells(first)
    plan = replace(plan, port_x=port_x, port_y=port_y)
    again = _place(netlist, technology, plan, wiring, rules, steps, _urgency(first))
    return min(first, again, key=lambda layout: layout.timing.delay)


def _place(
    netlist: Netlist,
    technology: Technology,
    plan: Floorplan,
    wiring: Wiring,
    rules: Rules,
    steps: int,
    weights: Floats | None,
) -> Layout:
    count = len(netlist.instances)
    x, y = np.zeros(count), np.zeros(count)
    for k, box in plan.macros.items():
        x[k], y[k] = box.x + box.width / 2, box.y + box.height / 2
    areas = np.array([i.cell.area for i in netlist.instances] + [0.0] * len(wiring.ports))
    movable = np.array([not i.cell.memory_bits for i in netlist.instances], dtype=bool)
    movable = np.concatenate([movable, np.zeros(len(wiring.ports), dtype=bool)])
    x, y = place_cells(
        wiring,
        areas,
        movable,
        np.concatenate([x, plan.port_x]),
        np.concatenate([y, plan.port_y]),
        plan.core,
        steps,
        weights,
    )
    return Layout(netlist, technology, rules, plan, x, y).in_rows()


def _ports_near_cells(layout: Layout) -> tuple[Floats, Floats]:
    """Ports around the die in the order of what they are connected to."""
    wiring, plan = layout.wiring, layout.floorplan
    middle_x, middle_y = plan.width / 2, plan.height / 2
    angle = np.zeros(len(wiring.ports))
    for k in range(len(wiring.nets)):
        points = wiring.points[wiring.start[k] : wiring.start[k + 1]]
        ports, cells = points[points >= wiring.instances], points[points < wiring.instances]
        if len(ports) and len(cells):
            away = layout.y[cells].mean() - middle_y, layout.x[cells].mean() - middle_x
            # from the lower left corner clockwise, as places around the die are counted
            angle[ports - wiring.instances] = (-np.arctan2(*away) - 3 * np.pi / 4) % (2 * np.pi)
    return around(np.argsort(angle, kind="stable"), plan.width, plan.height)


def _urgency(layout: Layout) -> Floats:
    """How hard nets shall pull: those on long paths several times as hard as the others."""
    timing = layout.timing
    slacks = np.array([timing.slacks.get(net, timing.delay) for net in layout.wiring.nets])
    critical = np.clip(1 - slacks / (_WINDOW * timing.delay + 1e-9), 0.0, 1.0)
    return 1 + _PULL * critical**2


TILES = 24  # across the longer side


@dataclass(frozen=True)
class Congestion:
    """Shares of the tracks that wires need."""

    mean: float
    worst: float  # tile
    tiles: Floats


def congestion_of(layout: Layout) -> Congestion:
    """Of every net; the clock's wires are not among them.

    Length of wire in every tile over the tracks that pass it. A net's wire is spread evenly over
    the box around its pins (P. Spindler, F. M. Johannes, DATE 2007). Tracks are those of all signal
    layers, of which supply and vias leave less.
    """
    plan, wiring = layout.floorplan, layout.wiring
    side = max(plan.width, plan.height) / TILES
    columns = max(1, int(np.ceil(plan.width / side - 1e-9)))
    rows = max(1, int(np.ceil(plan.height / side - 1e-9)))
    demand = np.zeros((rows, columns))
    left, bottom = side * np.arange(columns), side * np.arange(rows)
    for k, net in enumerate(wiring.nets):
        points = wiring.points[wiring.start[k] : wiring.start[k + 1]]
        spans = []
        for values, edges in ((layout.x[points], left), (layout.y[points], bottom)):
            low, high = float(values.min()), float(values.max())
            low, high = (
                (low - side / 20, high + side / 20) if high - low < side / 10 else (low, high)
            )
            inside = np.minimum(edges + side, high) - np.maximum(edges, low)
            spans.append(np.maximum(inside, 0.0) / (high - low))
        demand += layout.wires.length[net] * np.outer(spans[1], spans[0])
    share = demand / (layout.rules.tracks_per_um * side * side)
    return Congestion(float(share.mean()), float(share.max()), share)
