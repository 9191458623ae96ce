"""Timing repair of a layout: other drive strengths, and buffers, as long as the delay falls.

Each round looks at the nets that have little slack. A cell takes the drive strength that makes its
own delay and that of the cells before it least. A net is wired anew: buffers that repeat it, which
synthesis chose before places were known, go, and those come that leave its driver most time
(``best_tree``). Nets that load a cell beyond what its table covers are
split first. What was added finds its place in the rows, and the round counts only if the longest
path is shorter then.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import NamedTuple

import numpy as np

from tilewright.synth.netlist import Instance, Net
from tilewright.synth.place.layout import Layout
from tilewright.synth.place.rules import Rules, buffers, sizes
from tilewright.synth.place.timing import Timing
from tilewright.synth.place.wires import pin_loads
from tilewright.synth.technology import Cell

_KEPT = 24  # ways that are followed from one point
_SLOPE = 1.3  # a wire's slower slope costs the cells behind it this much of its delay, all in all


class Sink(NamedTuple):
    """A point that a net goes to, and the net that it has now."""

    net: Net
    point: int
    x: float
    y: float
    load: float  # fF
    due: float  # ps, the latest that its signal may come


@dataclass(frozen=True, slots=True)
class Buffer:
    """A buffer, and what is behind it."""

    cell: Cell
    x: float
    y: float
    behind: "Plan"


Plan = Sink | Buffer | tuple["Plan", "Plan"]


class _Way(NamedTuple):
    """A way to serve all sinks behind a place: what it loads, when it must be served."""

    load: float
    due: float
    plan: Plan


def _slower(cell: Cell, slew: float, load: float) -> float:
    """ps of the slower edge."""
    arc = cell.arcs[0]
    return max(arc.rise.delay.at(slew, load), arc.fall.delay.at(slew, load))


class _Builder:
    def __init__(self, cells: Sequence[Cell], rules: Rules, slew: float):
        self.rules = rules
        self.kinds = []  # cell, load of its pin, its own delay, and that of a load
        for cell in cells:
            (load,) = cell.inputs.values()
            own = _slower(cell, slew, 0.0)
            self.kinds.append((cell, load, own, _slower(cell, slew, 1.0) - own))
        _, _, typical, _ = self.kinds[len(cells) // 2]
        # As far as a wire costs about as much as the buffer at its end.
        self.stretch = (0.8e3 * typical / (rules.ohm_per_um * rules.ff_per_um)) ** 0.5 / 2

    def from_place(self, sinks: Sequence[Sink], x: float, y: float) -> list[_Way]:
        """Ways to serve ``sinks`` from a place."""
        if len(sinks) == 1:
            (sink,) = sinks
            ways = [_Way(sink.load, sink.due, sink)]
            return self._wire(self._buffered(ways, sink.x, sink.y), sink.x, sink.y, x, y)
        left, right = min(s.x for s in sinks), max(s.x for s in sinks)
        low, high = min(s.y for s in sinks), max(s.y for s in sinks)
        at_x, at_y = min(max(x, left), right), min(max(y, low), high)
        wide = right - left >= high - low
        order = sorted(sinks, key=lambda s: (s.x, s.y) if wide else (s.y, s.x))
        half = len(order) // 2
        parts = (self.from_place(part, at_x, at_y) for part in (order[:half], order[half:]))
        ways = self._buffered(_joined(*parts), at_x, at_y)
        return self._wire(ways, at_x, at_y, x, y)

    def _buffered(self, ways: list[_Way], x: float, y: float) -> list[_Way]:
        found = list(ways)
        for cell, load, own, per_load in self.kinds:
            best, due = ways[0], -math.inf
            for way in ways:
                after = way.due - per_load * way.load
                if after > due:
                    best, due = way, after
            found.append(_Way(load, due - own, Buffer(cell, x, y, best.plan)))
        return _pruned(found)

    def _wire(self, ways: list[_Way], x: float, y: float, to_x: float, to_y: float) -> list[_Way]:
        """The ways with a wire before them, which may have buffers."""
        length = abs(to_x - x) + abs(to_y - y)
        parts = int(length / self.stretch) + 1
        piece = length / parts
        for k in range(parts):
            if k:
                share = k / parts
                ways = self._buffered(ways, x + share * (to_x - x), y + share * (to_y - y))
            if piece:
                ways = [
                    _Way(
                        w.load + self.rules.ff_per_um * piece,
                        w.due - _SLOPE * self.rules.elmore(piece, w.load),
                        w.plan,
                    )
                    for w in ways
                ]
        return _pruned(ways)


def _joined(a: list[_Way], b: list[_Way]) -> list[_Way]:
    """Ways of two parts together; of both, what may come later loads more."""
    found, i, j = [], 0, 0
    while i < len(a) and j < len(b):
        one, other = a[i], b[j]
        due = min(one.due, other.due)
        found.append(_Way(one.load + other.load, due, (one.plan, other.plan)))
        i, j = i + (one.due == due), j + (other.due == due)
    return _pruned(found)


def _pruned(ways: list[_Way]) -> list[_Way]:
    """Those that may turn out best: the more a way loads, the later it may come."""
    kept: list[_Way] = []
    for way in sorted(ways, key=lambda w: (w.load, -w.due)):
        if not kept or way.due > kept[-1].due:
            kept.append(way)
    if len(kept) > _KEPT:
        step = (len(kept) - 1) / (_KEPT - 1)
        kept = [kept[round(k * step)] for k in range(_KEPT)]
    return kept


def best_tree(
    source: tuple[float, float],
    ps_per_ff: float,
    sinks: Sequence[Sink],
    urgent: float,
    cells: Sequence[Cell],
    rules: Rules,
    slew: float,
) -> tuple[float, Plan]:
    """The tree that may be driven latest, and when: a driver at ``source`` with its load in it.

    Sinks that are due by ``urgent`` are wired apart from the others.

    Sinks are halved by place again and again, which gives a tree of wires. Every point of a tree,
    and every stretch of a long wire, may have a buffer. From the sinks back to the driver only what
    may turn out best is followed: of two ways with the same load the one that may come later, of
    two that may come as late the one with less load (L. P. P. P. van Ginneken, ISCAS 1990).
    """
    builder = _Builder(cells, rules, slew)
    parts = [
        part
        for part in ([s for s in sinks if s.due <= urgent], [s for s in sinks if s.due > urgent])
        if part
    ]
    ways = builder.from_place(parts[0], *source)
    if len(parts) == 2:
        ways = _joined(ways, builder.from_place(parts[1], *source))
    best = max(ways, key=lambda w: w.due - ps_per_ff * w.load)
    return best.due - ps_per_ff * best.load, best.plan


ROUNDS = 24
# What a round does, and to which nets: those with less slack than this share of what wires cost the
# longest path, and than a little of its delay.
_MOVES = (
    *((0.5, ("tree",)), (0.2, ("tree", "resize")), (0.05, ("tree",)), (0.05, ("resize",))),
    *((0.0, ("tree", "resize")), (0.0, ("tree",)), (0.0, ("resize",))),
)
_LITTLE = 0.003
_WORTH = 0.0005  # of the delay, that a net's buffers must bring
_GAIN = 0.0005  # of the delay, that a round must bring
_MOST_ROWS = 0.92  # of the rows that repair may fill


@dataclass(frozen=True)
class Repaired:
    """A layout after repair, and what was done to it."""

    layout: Layout
    resized: int
    buffers: int  # added
    removed: int  # buffers that synthesis had put there


def repair(layout: Layout, rounds: int = ROUNDS) -> Repaired:
    """Shorten the longest path of ``layout`` until a round brings nothing."""
    aim = Timing(layout.netlist, layout.technology, layout.wiring, None).delay
    best = _split_overloads(layout)
    last = len(_MOVES)  # moves in a row that brought nothing end the repair
    failed = turn = 0
    for _ in range(rounds):
        share, names = _MOVES[turn % last]
        delay = best.timing.delay
        work = _Work(best, share * max(0.0, delay - aim) + _LITTLE * delay)
        for name in names:
            getattr(work, name)()
        tried = work.layout() if work.changed and work.fits else best
        if tried.timing.delay < (1 - _GAIN) * best.timing.delay:
            best, failed = tried, 0
            continue
        failed, turn = failed + 1, turn + 1
        if failed == last:
            break
    before = {instance.name: instance.cell.name for instance in layout.netlist.instances}
    after = {instance.name: instance.cell.name for instance in best.netlist.instances}
    resized = sum(after.get(name, cell) != cell for name, cell in before.items())
    return Repaired(
        best, resized, len(after.keys() - before.keys()), len(before.keys() - after.keys())
    )


def _split_overloads(layout: Layout) -> Layout:
    """Every net within what its driver's table covers, if its sinks can be shared out."""
    before = layout.timing.delay
    work = _Work(layout, 0.0)
    work.split_overloads()
    if not work.changed or not work.fits:
        return layout
    tried = work.layout()
    return layout if tried.timing.delay > 1.02 * before else tried


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
        names = {cell.name for cell in self.buffer_cells}
        self.repeaters = {k for k, i in enumerate(self.instances) if i.cell.name in names}
        self.removed: set[int] = set()  # repeaters
        self.changed = False

    @property
    def _cells(self) -> list[Instance]:
        kept = (i for k, i in enumerate(self.instances) if k not in self.removed)
        return [*kept, *(instance for instance, _, _ in self.added)]

    @property
    def fits(self) -> bool:
        """Whether the rows have room for what was added."""
        core = self.before.floorplan.core
        area = sum(i.cell.area for i in self._cells if not i.cell.memory_bits)
        return area <= _MOST_ROWS * core.width * core.height

    def layout(self) -> Layout:
        """The new layout, its cells in rows again."""
        before, count = self.before, len(self.before.netlist.instances)
        kept = np.array([k not in self.removed for k in range(count)], dtype=bool)
        netlist = replace(before.netlist, instances=self._cells, outputs=self.outputs)
        x, y = (
            np.concatenate([old[:count][kept], [place[k] for place in self.added], old[count:]])
            for k, old in ((1, before.x), (2, before.y))
        )
        moved = Layout(netlist, before.technology, before.rules, before.floorplan, x, y)
        return moved.in_rows()

    def _critical(self) -> list[Net]:
        slacks = self.timing.slacks
        found = (net for net, slack in slacks.items() if slack <= self.margin)
        return sorted(found, key=lambda net: (slacks[net], str(net)))

    def resize(self) -> None:
        """Give each cell that drives a critical net its best strength, as things are now."""
        families = sizes(self.technology)
        for net in self._critical():
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
                cost = more * _per_load(self.instances[k].cell)
                before = max(before, cost) if more > 0 else min(before, cost)
        return slowest + before

    def tree(self) -> None:
        """Give critical nets other buffers: those that leave their drivers most time."""
        sinks = self._sinks()
        done: set[Net] = set()
        for net in self._critical():
            root = self._root(net)
            if root in done or root not in self.before.wires.length:
                continue
            done.add(root)
            self._tree_of(root, sinks)

    def _root(self, net: Net) -> Net:
        """The net that buffers repeat as ``net``."""
        while (k := self.drivers.get(net)) is not None and k in self.repeaters:
            (source,) = (self.instances[k].pins[pin] for pin in self.instances[k].cell.inputs)
            net = source
        return net

    def _sinks(self) -> dict[Net, dict[int, float]]:
        """The points of each net, and the load (fF) of the pins there."""
        before, found = self.before, dict[Net, dict[int, float]]()
        loads = pin_loads(before.netlist, before.wiring, self.technology.output_load)
        for (net, point), load in loads.items():
            found.setdefault(net, {})[point] = load
        return found

    def _tree_of(self, root: Net, sinks: dict[Net, dict[int, float]]) -> None:
        timing, wires, x, y = self.timing, self.before.wires, self.before.x, self.before.y
        slack = timing.slacks.get(root)
        if slack is None:
            return
        ends: list[Sink] = []
        repeaters: list[int] = []
        waiting = [root]
        while waiting:
            net = waiting.pop()
            for p, load in sinks.get(net, {}).items():
                if p in self.repeaters:
                    repeaters.append(p)
                    waiting += (self.instances[p].pins[o] for o in self.instances[p].cell.outputs)
                    continue
                left = timing.sink_slacks.get((net, p), 10 * timing.delay)
                due = timing.arrivals[net] + wires.delay.get((net, p), 0.0) + left
                ends.append(Sink(net, p, float(x[p]), float(y[p]), load, due))
        if not ends:
            return
        k = self.drivers.get(root)
        cell = self.technology.cells[self.technology.drive_cell]
        per_load = _per_load(cell if k is None else self.instances[k].cell)
        source, arrival = self.before.wiring.drivers[root], timing.arrivals[root]
        latest, plan = best_tree(
            (float(x[source]), float(y[source])),
            per_load,
            ends,
            arrival + slack + self.margin + timing.delay / 10,
            self.buffer_cells,
            self.before.rules,
            self.technology.clock_slew,
        )
        gain = latest - (arrival - per_load * timing.loads[root]) - slack
        if gain > _WORTH * timing.delay:
            self.removed.update(repeaters)
            self._build(root, plan)
            self.changed = True

    def _build(self, now: Net, plan: Plan) -> None:
        """Wire ``plan`` to ``now``."""
        if isinstance(plan, Buffer):
            self._build(self._buffer(now, plan.cell, plan.x, plan.y), plan.behind)
        elif isinstance(plan, Sink):
            if now != plan.net:
                self._connect(plan.net, plan.point, now)
        else:
            for part in plan:
                self._build(now, part)

    def _connect(self, net: Net, point: int, to: Net) -> None:
        """Wire what ``point`` has on ``net`` to another net."""
        count = len(self.before.netlist.instances)
        if point >= count:
            port, bit = self.before.wiring.ports[point - count]
            self.outputs[port][bit] = to
            return
        old = self.instances[point]
        pins = {p: to if n == net and p in old.cell.inputs else n for p, n in old.pins.items()}
        self.instances[point] = replace(old, pins=pins)

    def split_overloads(self) -> None:
        sinks = self._sinks()
        strong = max(self.buffer_cells, key=lambda cell: cell.area)
        x, y, wires = self.before.x, self.before.y, self.before.wires
        for net, k in self.drivers.items():
            most = self.instances[k].cell.max_load
            if most is None or self.timing.loads.get(net, 0.0) <= most or net not in wires.length:
                continue
            points = list(sinks.get(net, {}))
            parts = min(len(points), int(np.ceil(self.timing.loads[net] / most)) + 1)
            for group in _clusters(points, x, y, parts):
                fresh = self._buffer(net, strong, float(x[group].mean()), float(y[group].mean()))
                for point in group:
                    self._connect(net, point, fresh)
                self.changed = True

    def _buffer(self, net: Net, cell: Cell, x: float, y: float) -> Net:
        """Add a buffer behind ``net`` at a place, and return the net that it drives."""
        (pin,), (out,) = cell.inputs, cell.outputs
        fresh, self.next_net = self.next_net, self.next_net + 1
        made = Instance(f"repair_buffer_{fresh}", cell, {pin: net, out: fresh})
        self.added.append((made, x, y))
        return fresh


def _per_load(cell: Cell) -> float:
    """ps of the slowest edge for each fF more."""
    edges = [edge for arc in cell.arcs for edge in (arc.rise, arc.fall)]
    return max((e.delay.at(0.0, 1.0) - e.delay.at(0.0, 0.0) for e in edges), default=0.0)


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
