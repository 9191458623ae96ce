"""Where buffers go on a net: the tree of buffers that leaves its driver most time.

Sinks are halved by place again and again, which gives a tree of wires; those that have time hang
on a tree of their own. Every point of a tree, and every stretch of a long wire, may have a buffer.
From the sinks back to the driver only what may turn out best is kept: of two ways with the same
load the one that may come later, of two that may come as late the one with less load (L. P. P. P.
van Ginneken, ISCAS 1990).
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

from tilewright.synth.netlist import Net
from tilewright.synth.place.rules import Rules
from tilewright.synth.technology import Cell

__all__ = ["Buffer", "Plan", "Sink", "best_tree"]

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
