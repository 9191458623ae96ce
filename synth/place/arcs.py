"""A netlist as arrays for static timing: its arcs level by level, its registers and its ends.

Nets are counted in the order in which ports and instances name them; an edge of net ``n`` is
``2 * n + edge``. Pins are places in the wiring, one more than the last for those without a wire.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import numpy as np

from tilewright.synth.netlist import Instance, Net, Netlist, in_signal_order
from tilewright.synth.place.wiring import Floats, Ints, Wiring
from tilewright.synth.technology import Plane, Surface
from tilewright.synth.timing import FALL, RISE

__all__ = ["Arcs", "Graph", "graph_of", "planes_of"]

_SAME, _OPPOSITE = ((RISE, RISE), (FALL, FALL)), ((FALL, RISE), (RISE, FALL))
_CAUSES = {"+": _SAME, "-": _OPPOSITE, "*": (*_SAME, *_OPPOSITE)}


@dataclass(frozen=True)
class Planes:
    """Linear quantities of many arcs, as :class:`tilewright.synth.technology.Plane` has one."""

    base: Floats
    per_load: Floats
    per_slew: Floats

    def at(self, slew: Floats, load: Floats) -> Floats:
        return self.base + self.per_load * load + self.per_slew * slew

    def __getitem__(self, chosen: "Ints | slice") -> "Planes":
        return Planes(self.base[chosen], self.per_load[chosen], self.per_slew[chosen])


@dataclass(frozen=True)
class Arcs:
    """From an edge to the edge that it causes, through the cell at ``points``."""

    sources: Ints
    targets: Ints
    pins: Ints  # of the sources' nets, at the cell
    points: Ints
    delay: Planes
    slew: Planes

    def __getitem__(self, chosen: "Ints | slice") -> "Arcs":
        return Arcs(
            self.sources[chosen],
            self.targets[chosen],
            self.pins[chosen],
            self.points[chosen],
            self.delay[chosen],
            self.slew[chosen],
        )


@dataclass(frozen=True)
class Ends:
    """Where paths end: the two edges of the net at each end, one after the other."""

    places: Ints
    pins: Ints
    points: Ints
    setups: Floats  # ps


@dataclass(frozen=True)
class Graph:
    """A netlist without its places."""

    netlist: Netlist
    wiring: Wiring
    nets: list[Net]
    index: dict[Net, int]  # of a net in ``nets``
    wired_nets: Ints  # in ``nets``, of each net of the wiring
    drivers: Ints  # the point that drives each net, -1 if none does
    levels: list[Arcs]  # two for each level of cells: from their inputs, then between outputs
    launches: Arcs  # from clocks through registers and memories
    level_of_points: dict[int, int]
    ends: Ends

    def driver_point(self, net: int) -> int | None:
        """The point that drives a net; None where nothing does."""
        return int(self.drivers[net]) if self.drivers[net] >= 0 else None

    def level_of(self, point: int) -> int | None:
        """Of the cell at a point; None where it is none, or a register."""
        return self.level_of_points.get(point)

    def pin_loads(self, output_load: float) -> Floats:
        """fF of all pins of each net."""
        nets, loads = [], []
        for instance in self.netlist.instances:
            for pin, capacitance in instance.cell.inputs.items():
                nets.append(self.index[instance.pins[pin]])
                loads.append(capacitance)
        for port in self.netlist.outputs.values():
            nets += [self.index[net] for net in port]
            loads += [output_load] * len(port)
        total = np.zeros(len(self.nets))
        np.add.at(total, np.array(nets, dtype=np.int64), np.array(loads))
        return total


def graph_of(netlist: Netlist, wiring: Wiring) -> Graph:
    """The arrays of ``netlist``, whose nets with wires are those of ``wiring``."""
    index: dict[Net, int] = {}
    for group in (*netlist.inputs.values(), *netlist.outputs.values()):
        for net in group:
            index.setdefault(net, len(index))
    for instance in netlist.instances:
        for net in instance.pins.values():
            index.setdefault(net, len(index))
    pins = _Pins(wiring, index)
    drivers = np.full(len(index), -1)
    for n, (port, bit) in enumerate(wiring.ports):
        if port in netlist.inputs:
            drivers[index[netlist.inputs[port][bit]]] = wiring.instances + n
    for k, instance in enumerate(netlist.instances):
        for pin in instance.cell.outputs:
            if pin in instance.pins:
                drivers[index[instance.pins[pin]]] = k
    levels = _levels(netlist, index, drivers)
    launching = {
        k
        for k, instance in enumerate(netlist.instances)
        if instance.cell.state is not None and instance.cell.clock_gate is None
    }
    through = _arcs(netlist.instances, levels, index, pins, clocked=False)
    of_points = np.array([levels.get(k, -1) for k in range(len(netlist.instances))], dtype=np.int64)
    # Adders have arcs from one of their outputs to the other: these come after the rest.
    inside = drivers[through.sources // 2] == through.points
    order = 2 * of_points[through.points] + inside
    through = through[np.argsort(order, kind="stable")]
    depth = 2 + 2 * max(levels.values(), default=-1)
    starts = np.searchsorted(np.sort(order), np.arange(depth + 1))
    return Graph(
        netlist,
        wiring,
        list(index),
        index,
        np.array([index[net] for net in wiring.nets], dtype=np.int64),
        drivers,
        [through[starts[k] : starts[k + 1]] for k in range(depth)],
        _arcs(netlist.instances, launching, index, pins, clocked=True),
        levels,
        _ends(netlist, wiring, index, pins),
    )


class _Pins:
    """Finds the place in the wiring of a net at a point."""

    def __init__(self, wiring: Wiring, index: dict[Net, int]):
        self.none, self.points = len(wiring.points), wiring.instances + len(wiring.ports)
        wired = np.array([index[net] for net in wiring.nets], dtype=np.int64)
        keys = wired[wiring.net_of_pin] * self.points + wiring.points
        self.order = np.argsort(keys, kind="stable")
        self.keys = keys[self.order]

    def at(self, nets: Ints, points: Ints) -> Ints:
        if not self.none:
            return np.zeros(len(nets), dtype=np.int64)
        keys = nets * self.points + points
        place = np.minimum(np.searchsorted(self.keys, keys), self.none - 1)
        return np.where(self.keys[place] == keys, self.order[place], self.none)


def _levels(netlist: Netlist, index: dict[Net, int], drivers: Ints) -> dict[int, int]:
    """How many cells lie before each combinational one on its longest way from a register."""
    number = {id(instance): k for k, instance in enumerate(netlist.instances)}
    of_points = drivers.tolist()
    levels: dict[int, int] = {}
    for instance in in_signal_order(netlist):
        before = (of_points[index[instance.pins[pin]]] for pin in instance.cell.inputs)
        level = 1 + max((levels.get(point, -1) for point in before), default=-1)
        levels[number[id(instance)]] = level
    return levels


def _arcs(
    instances: Sequence[Instance],
    chosen: Iterable[int],
    index: dict[Net, int],
    pins: _Pins,
    *,
    clocked: bool,
) -> Arcs:
    """Arcs of the chosen instances, those of one instance in the order of its cell."""
    by_cell: dict[int, list[int]] = {}
    for k in sorted(chosen):
        by_cell.setdefault(id(instances[k].cell), []).append(k)
    parts: list[tuple] = []
    for members in by_cell.values():
        cell, points = instances[members[0]].cell, np.array(members)
        for arc in cell.arcs:
            if clocked and arc.source != cell.clock_pin:
                continue
            source, target = (
                np.array([index.get(instances[k].pins.get(pin, ""), -1) for k in members])
                for pin in (arc.source, arc.target)
            )
            there = (source >= 0) & (target >= 0)
            # A clock's rising edge causes both; what it is called does not matter.
            causes = ((RISE, RISE), (RISE, FALL)) if clocked else _CAUSES[arc.sense]
            for cause, effect in causes:
                parts.append((source[there], cause, target[there], effect, points[there], arc))
    return _joined(parts, pins)


def _joined(parts: list[tuple], pins: _Pins) -> Arcs:
    nothing = np.zeros(0, dtype=np.int64)
    sources = np.concatenate([nothing, *(source for source, *_ in parts)])
    points = np.concatenate([nothing, *(points for *_, points, _ in parts)])
    shapes = [arc.rise if effect == RISE else arc.fall for *_, effect, _, arc in parts]
    counts = [len(source) for source, *_ in parts]
    return Arcs(
        np.concatenate([nothing, *(2 * source + cause for source, cause, *_ in parts)]),
        np.concatenate([nothing, *(2 * target + e for _, _, target, e, _, _ in parts)]),
        pins.at(sources, points),
        points,
        planes_of([shape.delay for shape in shapes], counts),
        planes_of([shape.slew for shape in shapes], counts),
    )


def planes_of(surfaces: Sequence[Surface], counts: Sequence[int]) -> Planes:
    """Each of ``surfaces`` as often as ``counts`` says."""
    planes = [surface for surface in surfaces if isinstance(surface, Plane)]
    if len(planes) < len(surfaces):
        raise ValueError("placement needs the compact tables of a technology, linear in slew")
    columns = ([getattr(p, name) for p in planes] for name in ("base", "per_load", "per_slew"))
    return Planes(*(np.repeat(np.array(column, dtype=float), counts) for column in columns))


def _ends(netlist: Netlist, wiring: Wiring, index: dict[Net, int], pins: _Pins) -> Ends:
    at_port = {port: wiring.instances + n for n, port in enumerate(wiring.ports)}
    found = [
        (index[net], at_port[port, bit], 0.0)
        for port, nets in netlist.outputs.items()
        for bit, net in enumerate(nets)
    ]
    found += [
        (index[instance.pins[pin]], k, setup)
        for k, instance in enumerate(netlist.instances)
        for pin, setup in instance.cell.setup.items()
    ]
    nets, points = (np.array([end[n] for end in found], dtype=np.int64) for n in (0, 1))
    setups = np.array([setup for _, _, setup in found])
    places = (2 * nets[:, None] + np.array([RISE, FALL])).ravel()
    return Ends(places, *(np.repeat(v, 2) for v in (pins.at(nets, points), points, setups)))
