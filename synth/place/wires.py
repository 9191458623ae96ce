"""What the wires of a placed netlist add: length, capacitance and delay of every net.

The length of a net is half the perimeter of the box around its pins, times a factor for the number
of pins by which Steiner trees are longer (C. E. Cheng, RISA, ICCAD 1994). Its delay is Elmore's on
the shortest tree of straight connections between pins, all connections scaled so that they sum to
that length.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np

from tilewright.synth.netlist import Net, Netlist
from tilewright.synth.place.rules import Rules
from tilewright.synth.place.wiring import Floats, Wiring

__all__ = ["Branch", "Wires", "pin_loads", "steiner_factor", "wires_of"]

_PINS = (3, 4, 5, 6, 7, 8, 9, 10, 15, 20, 25, 30, 35, 40, 45, 50)
_FACTORS = (
    *(1.0, 1.0828, 1.1536, 1.2206, 1.2823, 1.3385, 1.3991, 1.4493),
    *(1.6899, 1.8924, 2.0743, 2.2334, 2.3895, 2.5356, 2.6625, 2.7933),
)


@dataclass(frozen=True)
class Branch:
    """A connection of a net's tree, from the point nearer to the driver."""

    source: int
    target: int
    length: float  # um


@dataclass(frozen=True)
class Wires:
    """Of every net that has two points or more."""

    length: dict[Net, float]  # um
    capacitance: dict[Net, float]  # fF
    delay: dict[tuple[Net, int], float]  # ps from the driver to a point
    trees: dict[Net, tuple[Branch, ...]]

    @property
    def total_length(self) -> float:
        return sum(self.length.values())


def steiner_factor(pins: int) -> float:
    """Length of a Steiner tree over the half-perimeter of its box."""
    if pins > _PINS[-1]:  # in a box of pins that lie anywhere it grows as the root of their number
        return float(_FACTORS[-1] * (pins / _PINS[-1]) ** 0.5)
    return float(np.interp(pins, _PINS, _FACTORS))


def pin_loads(netlist: Netlist, wiring: Wiring, output_load: float) -> dict[tuple[Net, int], float]:
    """fF of the pins of each net at each point."""
    loads: dict[tuple[Net, int], float] = {}
    for k, instance in enumerate(netlist.instances):
        for pin, capacitance in instance.cell.inputs.items():
            place = instance.pins[pin], k
            loads[place] = loads.get(place, 0.0) + capacitance
    for n, (name, bit) in enumerate(wiring.ports):
        if name in netlist.outputs:
            place = netlist.outputs[name][bit], wiring.instances + n
            loads[place] = loads.get(place, 0.0) + output_load
    return loads


def wires_of(
    netlist: Netlist, wiring: Wiring, x: Floats, y: Floats, rules: Rules, output_load: float
) -> Wires:
    """Of the points of ``wiring`` at ``x`` and ``y``."""
    loads = pin_loads(netlist, wiring, output_load)
    lengths = wiring.half_perimeters(x, y)
    found = Wires({}, {}, {}, {})
    for k, net in enumerate(wiring.nets):
        points = wiring.points[wiring.start[k] : wiring.start[k + 1]]
        length = float(lengths[k]) * steiner_factor(len(points))
        branches = _tree(points.tolist(), x[points], y[points])
        straight = sum(branch.length for branch in branches)
        scale = length / straight if straight else 0.0
        tree = tuple(Branch(b.source, b.target, b.length * scale) for b in branches)
        found.length[net], found.trees[net] = length, tree
        found.capacitance[net] = length * rules.ff_per_um
        for point, delay in _elmore(net, tree, loads, rules):
            found.delay[net, point] = delay
    return found


def _tree(points: Sequence[int], x: Floats, y: Floats) -> list[Branch]:
    """The shortest tree of rectilinear connections, from the first point on (Prim)."""
    if len(points) == 2:
        return [Branch(points[0], points[1], float(abs(x[0] - x[1]) + abs(y[0] - y[1])))]
    near = np.abs(x - x[0]) + np.abs(y - y[0])
    source = np.zeros(len(points), dtype=np.int64)
    near[0], branches = np.inf, []
    inside = np.zeros(len(points), dtype=bool)
    inside[0] = True
    for _ in range(len(points) - 1):
        k = int(np.argmin(near))
        branches.append(Branch(points[int(source[k])], points[k], float(near[k])))
        inside[k], near[k] = True, np.inf
        away = np.abs(x - x[k]) + np.abs(y - y[k])
        better = ~inside & (away < near)
        near[better], source[better] = away[better], k
    return branches


def _elmore(
    net: Net, tree: Sequence[Branch], loads: dict[tuple[Net, int], float], rules: Rules
) -> Iterator[tuple[int, float]]:
    """Delay to every point but the driver; branches come in order from the driver."""
    behind: dict[int, float] = {}
    for branch in reversed(tree):
        own = behind.setdefault(branch.target, 0.0) + loads.get((net, branch.target), 0.0)
        behind[branch.target] = own
        added = own + rules.ff_per_um * branch.length
        behind[branch.source] = behind.get(branch.source, 0.0) + added
    delays = {tree[0].source: 0.0} if tree else {}
    for branch in tree:
        after = rules.elmore(branch.length, behind[branch.target])
        delays[branch.target] = delays[branch.source] + after
        yield branch.target, delays[branch.target]
