"""The nets of a netlist as arrays: which points each one connects.

A point is an instance, at its centre, or a bit of a port, on the edge of the die. Clocks and reset
are no nets here: like the timing before placement, this one takes them as ideal, and the clock has
a tree of its own (``tilewright.synth.place.clock_tree``). Nor are constants.
"""

from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from tilewright.synth.netlist import Net, Netlist
from tilewright.synth.timing import IDEAL_INPUTS

__all__ = ["Wiring", "ideal_nets", "wiring_of"]

Ints = NDArray[np.int64]
Floats = NDArray[np.float64]


@dataclass(frozen=True)
class Wiring:
    """Pins by net, the driver of each net first.

    ``nets[k]`` has the points ``points[start[k] : start[k + 1]]``; instances are points by their
    place in the netlist, bits of ports follow.
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
