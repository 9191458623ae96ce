"""What the wires of a placed netlist add: length, capacitance and delay of every net.

The length of a net is half the perimeter of the box around its pins, times a factor for the number
of pins by which Steiner trees are longer (C. E. Cheng, RISA, ICCAD 1994). Its delay is Elmore's on
the shortest tree of straight connections between pins, all connections scaled so that they sum to
that length.
"""

from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from tilewright.synth.netlist import Net, Netlist
from tilewright.synth.place.rules import Rules
from tilewright.synth.timing import IDEAL_INPUTS

Ints = NDArray[np.int64]
Floats = NDArray[np.float64]


@dataclass(frozen=True)
class Wiring:
    """Pins by net, the driver of each net first.

    ``nets[k]`` has the points ``points[start[k] : start[k + 1]]``; instances are points by their
    place in the netlist, bits of ports follow.

    A point is an instance, at its centre, or a bit of a port, on the edge of the die. Clocks and
    reset are no nets here: like the timing before placement, this one takes them as ideal, and the
    clock has a tree of its own (``tilewright.synth.place.clock_tree``). Nor are constants.
    """

    instances: int
    ports: list[tuple[str, int]]  # name and bit of the points behind the instances
    nets: list[Net]
    start: Ints
    points: Ints

    @cached_property
    def sizes(self) -> Ints:
        return np.diff(self.start)

    @cached_property
    def net_of_pin(self) -> Ints:
        return np.repeat(np.arange(len(self.nets)), self.sizes)

    @cached_property
    def drivers(self) -> dict[Net, int]:
        """The first point of each net."""
        return dict(zip(self.nets, self.points[self.start[:-1]].tolist(), strict=True))

    def half_perimeters(self, x: Floats, y: Floats) -> Floats:
        """Of the box around each net."""
        if not self.nets:
            return np.zeros(0)
        total = np.zeros(len(self.nets))
        for values in (x[self.points], y[self.points]):
            highest = np.maximum.reduceat(values, self.start[:-1])
            total += highest - np.minimum.reduceat(values, self.start[:-1])
        return total


def ideal_nets(netlist: Netlist) -> set[Net]:
    """Clock and reset, as they come in and behind clock gates."""
    ideal = {net for port, nets in netlist.inputs.items() if port in IDEAL_INPUTS for net in nets}
    return ideal | set(netlist.clock_gates)


def wiring_of(netlist: Netlist) -> Wiring:
    """Every net with two points or more."""
    ideal = ideal_nets(netlist)
    pins: dict[Net, list[int]] = {}
    drivers: dict[Net, int] = {}
    ports: list[tuple[str, int]] = []
    count = len(netlist.instances)

    def add(net: Net, point: int) -> None:
        if isinstance(net, int) and net not in ideal:
            pins.setdefault(net, []).append(point)

    for name, nets in (*netlist.inputs.items(), *netlist.outputs.items()):
        for bit, net in enumerate(nets):
            if name in netlist.inputs:
                drivers.setdefault(net, count + len(ports))
            add(net, count + len(ports))
            ports.append((name, bit))
    for k, instance in enumerate(netlist.instances):
        for pin, net in instance.pins.items():
            if pin in instance.cell.outputs:
                drivers[net] = k
            add(net, k)
    kept, start, points = [], [0], []
    for net, found in pins.items():
        driver = drivers.get(net)
        several = list(dict.fromkeys([driver, *found] if driver is not None else found))
        if len(several) > 1:
            kept.append(net)
            points += several
            start.append(len(points))
    as_ints = (np.array(values, dtype=np.int64) for values in (start, points))
    return Wiring(count, ports, kept, *as_ints)


_PINS = (3, 4, 5, 6, 7, 8, 9, 10, 15, 20, 25, 30, 35, 40, 45, 50)
_FACTORS = (
    *(1.0, 1.0828, 1.1536, 1.2206, 1.2823, 1.3385, 1.3991, 1.4493),
    *(1.6899, 1.8924, 2.0743, 2.2334, 2.3895, 2.5356, 2.6625, 2.7933),
)


@dataclass(frozen=True)
class Wires:
    """Of every net that has two points or more, in the order of ``wiring``."""

    wiring: Wiring
    ff_per_um: float
    lengths: Floats  # um, of nets
    delays: Floats  # ps from the driver to each pin

    @property
    def total_length(self) -> float:
        return float(self.lengths.sum())

    @cached_property
    def length(self) -> dict[Net, float]:
        """Of each net, um."""
        return dict(zip(self.wiring.nets, self.lengths.tolist(), strict=True))

    @cached_property
    def capacitance(self) -> dict[Net, float]:
        """Of each net, fF."""
        values = (self.lengths * self.ff_per_um).tolist()
        return dict(zip(self.wiring.nets, values, strict=True))

    @cached_property
    def delay(self) -> dict[tuple[Net, int], float]:
        """ps from the driver of a net to each of its other points."""
        w = self.wiring
        places = zip(w.net_of_pin.tolist(), w.points.tolist(), self.delays.tolist(), strict=True)
        found = {(w.nets[k], point): delay for k, point, delay in places}
        for k, point in enumerate(w.points[w.start[:-1]].tolist()):
            del found[w.nets[k], point]
        return found


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
    by_place = pin_loads(netlist, wiring, output_load)
    places = zip(wiring.net_of_pin.tolist(), wiring.points.tolist(), strict=True)
    loads = np.array([by_place.get((wiring.nets[k], point), 0.0) for k, point in places])
    lengths, delays = wiring.half_perimeters(x, y), np.zeros(len(wiring.points))
    for pins in np.unique(wiring.sizes).tolist():
        nets = np.flatnonzero(wiring.sizes == pins)
        lengths[nets] *= steiner_factor(pins)
        places_of = wiring.start[nets][:, None] + np.arange(pins)
        points = wiring.points[places_of]
        sources, targets, straight = _trees(x[points], y[points])
        whole = straight[:, 0].copy()
        for b in range(1, pins - 1):
            whole += straight[:, b]
        scale = np.divide(lengths[nets], whole, out=np.zeros(len(nets)), where=whole > 0)
        scaled = straight * scale[:, None]
        delays[places_of] = _elmore(sources, targets, scaled, loads[places_of], rules)
    return Wires(wiring, rules.ff_per_um, lengths, delays)


def _trees(x: Floats, y: Floats) -> tuple[Ints, Ints, Floats]:
    """The shortest tree of rectilinear connections for each row of points, from its first (Prim).

    Returns from which place in the row each branch goes, to which one, and how far.
    """
    count, pins = x.shape
    rows = np.arange(count)
    near = np.abs(x - x[:, :1]) + np.abs(y - y[:, :1])
    source = np.zeros((count, pins), dtype=np.int64)
    inside = np.zeros((count, pins), dtype=bool)
    inside[:, 0], near[:, 0] = True, np.inf
    sources, targets = (np.empty((count, pins - 1), dtype=np.int64) for _ in range(2))
    lengths = np.empty((count, pins - 1))
    for b in range(pins - 1):
        k = np.argmin(near, axis=1)
        sources[:, b], targets[:, b], lengths[:, b] = source[rows, k], k, near[rows, k]
        inside[rows, k], near[rows, k] = True, np.inf
        away = np.abs(x - x[rows, k][:, None]) + np.abs(y - y[rows, k][:, None])
        better = ~inside & (away < near)
        near[better] = away[better]
        source = np.where(better, k[:, None], source)
    return sources, targets, lengths


def _elmore(sources: Ints, targets: Ints, lengths: Floats, loads: Floats, rules: Rules) -> Floats:
    """ps from the first point of each row to all of them, by its tree."""
    rows = np.arange(len(loads))
    behind = np.zeros_like(loads)
    for b in reversed(range(lengths.shape[1])):
        source, target = sources[:, b], targets[:, b]
        behind[rows, target] += loads[rows, target]
        behind[rows, source] += behind[rows, target] + rules.ff_per_um * lengths[:, b]
    delays = np.zeros_like(loads)
    for b in range(lengths.shape[1]):
        source, target = sources[:, b], targets[:, b]
        after = rules.elmore(lengths[:, b], behind[rows, target])
        delays[rows, target] = delays[rows, source] + after
    return delays
