"""Timing repair of a layout: other drive strengths, and buffers, as long as the delay falls.

Each round looks at the nets that have little slack. A cell takes the drive strength that makes its
own delay and that of the cells before it least. A net's far or patient sinks go behind a buffer:
where the wire to a sink takes longer than a buffer, halfway to it; and where sinks that have time
load a net whose others have none. Nets that load a cell beyond what its table covers are split
first. What was added finds its place in the rows, and the round counts only if the longest path
is shorter then.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

import numpy as np

from tilewright.synth.netlist import Instance, Net
from tilewright.synth.place.layout import Layout
from tilewright.synth.place.sizes import buffers, sizes
from tilewright.synth.place.wires import pin_loads
from tilewright.synth.technology import Cell

__all__ = ["Repaired", "repair"]

ROUNDS = 20
_MARGINS = (0.01, 0.003, 1e-6)  # of the delay: nets with less slack are looked at
_MOVES = (("resize", "buffer"), ("buffer",), ("resize",))
_GAIN = 0.0005  # of the delay, that a round must bring
_MOST_ROWS = 0.92  # of the rows that repair may fill


@dataclass(frozen=True)
class Repaired:
    """A layout after repair, and what was done to it."""

    layout: Layout
    resized: int
    buffers: int


def repair(layout: Layout, rounds: int = ROUNDS) -> Repaired:
    """Shorten the longest path of ``layout`` until a round brings nothing."""
    best, added = _split_overloads(layout)
    moves = [(margin, move) for margin in _MARGINS for move in _MOVES]
    last = len(moves)  # moves in a row that brought nothing end the repair
    failed = turn = 0
    for _ in range(rounds):
        margin, names = moves[turn % last]
        work = _Work(best, margin * best.timing.delay)
        for name in names:
            getattr(work, name)()
        tried = work.layout() if work.changed else best
        fits = tried.utilisation <= _MOST_ROWS
        if fits and tried.timing.delay < (1 - _GAIN) * best.timing.delay:
            best, added, failed = tried, added + work.buffers, 0
            continue
        failed, turn = failed + 1, turn + 1
        if failed == last:
            break
    kinds = {instance.name: instance.cell.name for instance in best.netlist.instances}
    resized = sum(kinds[i.name] != i.cell.name for i in layout.netlist.instances)
    return Repaired(best, resized, added)


def _split_overloads(layout: Layout) -> tuple[Layout, int]:
    """Every net within what its driver's table covers, if its sinks can be shared out."""
    before = layout.timing.delay
    work = _Work(layout, 0.0)
    work.split_overloads()
    if not work.buffers:
        return layout, 0
    tried = work.layout()
    if tried.utilisation > _MOST_ROWS or tried.timing.delay > 1.02 * before:
        return layout, 0
    return tried, work.buffers


class _Work:
    """A round of repair on copies of what a layout has."""

    def __init__(self, layout: Layout, margin: float):
        self.before, self.margin = layout, margin
        self.timing, self.technology = layout.timing, layout.technology
        self.instances = list(layout.netlist.instances)
        self.outputs = {port: list(nets) for port, nets in layout.netlist.outputs.items()}
        self.added: list[tuple[Instance, float, float]] = []
        self.buffer_cells = buffers(self.technology)
        self.drivers = {
            instance.pins[pin]: k
            for k, instance in enumerate(self.instances)
            for pin in instance.cell.outputs
            if pin in instance.pins
        }
        numbers = (n for n in (*self.drivers, *layout.wiring.nets) if isinstance(n, int))
        self.next_net = max(numbers, default=0) + 1
        self.changed = False

    @property
    def buffers(self) -> int:
        return len(self.added)

    def layout(self) -> Layout:
        """The new layout, its cells in rows again."""
        before, count = self.before, len(self.before.netlist.instances)
        netlist = replace(
            before.netlist,
            instances=[*self.instances, *(instance for instance, _, _ in self.added)],
            outputs=self.outputs,
        )
        x, y = (
            np.concatenate([old[:count], [place[k] for place in self.added], old[count:]])
            for k, old in ((1, before.x), (2, before.y))
        )
        moved = Layout(netlist, before.technology, before.rules, before.floorplan, x, y)
        return moved.in_rows()

    def _critical(self) -> Iterator[tuple[Net, float]]:
        found = ((net, s) for net, s in self.timing.slacks.items() if s <= self.margin)
        return iter(sorted(found, key=lambda pair: (pair[1], str(pair[0]))))

    def resize(self) -> None:
        """Give each cell that drives a critical net its best strength, as things are now."""
        families = sizes(self.technology)
        for net, _ in self._critical():
            k = self.drivers.get(net)
            if k is None or self.instances[k].cell.name not in families:
                continue
            now = self.instances[k]
            choices = families[now.cell.name]
            best = min(choices, key=lambda cell: (self._cost(now, cell), cell.area))
            if self._cost(now, best) < self._cost(now, now.cell) - 0.1:
                self.instances[k] = replace(now, cell=best)
                self.changed = True

    def _cost(self, instance: Instance, cell: Cell) -> float:
        """ps of the slowest arc of ``cell`` in this place, and what its pins cost those before."""
        pins, timing = instance.pins, self.timing
        slowest = 0.0
        for arc in cell.arcs:
            if arc.source in pins and arc.target in pins:
                load = timing.loads.get(pins[arc.target], 0.0)
                for shape in (arc.rise, arc.fall):
                    slew = timing.slews.get(pins[arc.source], 0.0)
                    if arc.source == cell.clock_pin:
                        slew = self.technology.clock_slew
                    slowest = max(slowest, shape.delay.at(slew, load))
        before = 0.0
        for pin, capacitance in cell.inputs.items():
            more = capacitance - instance.cell.inputs[pin]
            k = self.drivers.get(pins[pin])
            if more and k is not None and timing.slacks.get(pins[pin], np.inf) <= self.margin:
                arcs = self.instances[k].cell.arcs
                per_load = max(
                    (
                        e.delay.at(0.0, 1.0) - e.delay.at(0.0, 0.0)
                        for a in arcs
                        for e in (a.rise, a.fall)
                    ),
                    default=0.0,
                )
                before = max(before, more * per_load) if more > 0 else min(before, more * per_load)
        return slowest + before

    def buffer(self) -> None:
        """Put far or patient sinks of critical nets behind buffers."""
        loads = pin_loads(self.before.netlist, self.before.wiring, self.technology.output_load)
        sinks: dict[Net, list[int]] = {}
        for net, point in loads:
            sinks.setdefault(net, []).append(point)
        wires, x, y = self.before.wires, self.before.x, self.before.y
        small = min(self.buffer_cells, key=lambda cell: cell.area)
        usual = self._buffer_delay(small, self.technology.fanout_of_four_load)
        for net, slack in self._critical():
            points = sinks.get(net, [])
            if net not in wires.length or not points:
                continue
            source = self.before.wiring.drivers[net]
            far = [p for p in points if wires.delay.get((net, p), 0.0) > 1.5 * usual]
            if far:
                strong = (
                    self.buffer_cells[-1]
                    if len(far) > 4
                    else self.buffer_cells[len(self.buffer_cells) // 2]
                )
                half_x = (x[source] + x[far].mean()) / 2
                half_y = (y[source] + y[far].mean()) / 2
                self._insert(net, far, strong, half_x, half_y)
                continue
            behind = [
                p
                for p in points
                if self.timing.sink_slacks.get((net, p), np.inf) - slack > 2.5 * usual + self.margin
            ]
            if not behind or len(behind) == len(points):
                continue
            saved = sum(loads[net, p] for p in behind)
            reach = float(np.abs(x[behind] - x[source]).max() + np.abs(y[behind] - y[source]).max())
            saved += self.before.rules.ff_per_um * reach / 2
            if saved > 3 * next(iter(small.inputs.values())):
                near = (x[source] + x[behind].mean()) / 2, (y[source] + y[behind].mean()) / 2
                self._insert(net, behind, small, *near)

    def _buffer_delay(self, cell: Cell, load: float) -> float:
        arc = cell.arcs[0]
        slew = self.technology.clock_slew
        return max(arc.rise.delay.at(slew, load), arc.fall.delay.at(slew, load))

    def split_overloads(self) -> None:
        loads = pin_loads(self.before.netlist, self.before.wiring, self.technology.output_load)
        sinks: dict[Net, list[int]] = {}
        for net, point in loads:
            sinks.setdefault(net, []).append(point)
        strong = max(self.buffer_cells, key=lambda cell: cell.area)
        x, y, wires = self.before.x, self.before.y, self.before.wires
        for net, k in self.drivers.items():
            most = self.instances[k].cell.max_load
            if most is None or self.timing.loads.get(net, 0.0) <= most or net not in wires.length:
                continue
            points = sinks.get(net, [])
            parts = min(len(points), int(np.ceil(self.timing.loads[net] / most)) + 1)
            for group in _clusters(points, x, y, parts):
                middle = float(x[group].mean()), float(y[group].mean())
                self._insert(net, group, strong, *middle)

    def _insert(self, net: Net, points: Sequence[int], cell: Cell, x: float, y: float) -> None:
        """A buffer at ``x`` and ``y`` in front of the sinks of ``net`` at ``points``."""
        (pin,), (out,) = cell.inputs, cell.outputs
        fresh, self.next_net = self.next_net, self.next_net + 1
        name = f"repair_buffer_{fresh}"
        self.added.append((Instance(name, cell, {pin: net, out: fresh}), float(x), float(y)))
        count = len(self.before.netlist.instances)
        for point in points:
            if point >= count:
                port, bit = self.before.wiring.ports[point - count]
                self.outputs[port][bit] = fresh
                continue
            old = self.instances[point]
            pins = {
                p: fresh if n == net and p in old.cell.inputs else n for p, n in old.pins.items()
            }
            self.instances[point] = replace(old, pins=pins)
        self.changed = True


def _clusters(points: Sequence[int], x: np.ndarray, y: np.ndarray, parts: int) -> list[list[int]]:
    """Points that lie together, in so many groups of about the same size."""
    groups = [list(points)]
    while len(groups) < parts:
        groups.sort(key=len)
        largest = groups.pop()
        if len(largest) < 2:
            groups.append(largest)
            break
        wide = np.ptp(x[largest]) >= np.ptp(y[largest])
        order = sorted(largest, key=lambda p: (x if wide else y)[p])
        groups += [order[: len(order) // 2], order[len(order) // 2 :]]
    return groups
