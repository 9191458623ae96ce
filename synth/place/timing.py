"""Static timing of a placed netlist: as ``tilewright.synth.timing``, with wires.

A cell drives the pins of its net and its whole wire, lumped; then the wire's Elmore delay passes to
each sink, and slopes grow by it (the root of the squares of the driver's slew and the wire's own).
Without wires the delays are those of ``tilewright.synth.timing`` to the last bit.
"""

import math
from collections.abc import Iterator
from dataclasses import dataclass

from tilewright.synth.netlist import Net, Netlist, in_signal_order
from tilewright.synth.place.wires import Wires
from tilewright.synth.place.wiring import Wiring, ideal_nets
from tilewright.synth.technology import Technology
from tilewright.synth.timing import FALL, IDEAL_INPUTS, RISE

__all__ = ["PathPoint", "Timing", "time_placed"]

_SAME, _OPPOSITE = ((RISE, RISE), (FALL, FALL)), ((FALL, RISE), (RISE, FALL))
_CAUSES = {"+": _SAME, "-": _OPPOSITE, "*": (*_SAME, *_OPPOSITE)}

Place = tuple[Net, int]  # a net and an edge
NO_WIRES = Wires({}, {}, {}, {})


@dataclass(frozen=True)
class PathPoint:
    """A step of the longest path: the point that drives ``net``, and when."""

    point: int | None  # None where it is an input that no point stands for
    cell: str
    net: Net
    arrival: float  # ps, at the driver
    load: float  # fF, wire included


@dataclass(frozen=True)
class Timing:
    """What is known of every net; times in ps."""

    delay: float  # of the longest path, setup included
    path: tuple[PathPoint, ...]
    end: int | None  # the point where the path ends
    loads: dict[Net, float]  # fF
    arrivals: dict[Place, tuple[float, float]]  # time and slew at the driver
    slacks: dict[Net, float]  # against ``delay``, at the driver
    sink_slacks: dict[tuple[Net, int], float]  # the same at each sink


def time_placed(
    netlist: Netlist, technology: Technology, wiring: Wiring, wires: Wires = NO_WIRES
) -> Timing:
    """Find the longest path, and how much every net has left to it."""
    return _Analysis(netlist, technology, wiring, wires).run()


class _Analysis:
    def __init__(self, netlist: Netlist, technology: Technology, wiring: Wiring, wires: Wires):
        self.netlist, self.technology, self.wires = netlist, technology, wires
        self.ideal = ideal_nets(netlist)
        self.number = {id(instance): k for k, instance in enumerate(netlist.instances)}
        self.order = in_signal_order(netlist)
        self.port_point = {port: wiring.instances + n for n, port in enumerate(wiring.ports)}
        low, high = technology.slew_thresholds
        self.per_delay = math.log((100 - low) / (100 - high))  # slew of an RC over its delay
        self.loads = self._loads()
        # time, slew, where it came from, the point that drives it
        self.found: dict[Place, tuple[float, float, Place | None, int | None]] = {}

    def _loads(self) -> dict[Net, float]:
        loads: dict[Net, float] = {}
        for instance in self.netlist.instances:
            for pin, capacitance in instance.cell.inputs.items():
                net = instance.pins[pin]
                loads[net] = loads.get(net, 0.0) + capacitance
        for nets in self.netlist.outputs.values():
            for net in nets:
                loads[net] = loads.get(net, 0.0) + self.technology.output_load
        for net, capacitance in self.wires.capacitance.items():
            loads[net] = loads.get(net, 0.0) + capacitance
        return loads

    def _at_sink(self, net: Net, point: int, time: float, slew: float) -> tuple[float, float]:
        wire = self.wires.delay.get((net, point), 0.0)
        return (time + wire, math.hypot(slew, self.per_delay * wire)) if wire else (time, slew)

    def run(self) -> Timing:
        self._from_inputs()
        self._from_registers()
        for instance in self.order:
            point = self.number[id(instance)]
            for arc in instance.cell.arcs:
                if arc.source in instance.pins and arc.target in instance.pins:
                    source, target = instance.pins[arc.source], instance.pins[arc.target]
                    load = self.loads.get(target, 0.0)
                    for cause, effect in _CAUSES[arc.sense]:
                        before = self.found.get((source, cause))
                        if before is None:
                            continue
                        start, slope = self._at_sink(source, point, before[0], before[1])
                        shape = arc.rise if effect == RISE else arc.fall
                        time = start + shape.delay.at(slope, load)
                        slew = shape.slew.at(slope, load)
                        self._arrive((target, effect), time, slew, (source, cause), point)
        return self._finish()

    def _arrive(
        self, place: Place, time: float, slew: float, cause: Place | None, point: int | None
    ) -> None:
        known = self.found.get(place)
        if known is None:
            self.found[place] = (time, slew, cause, point)
        elif time > known[0]:
            self.found[place] = (time, max(slew, known[1]), cause, point)
        elif slew > known[1]:
            self.found[place] = (known[0], slew, known[2], known[3])

    def _from_inputs(self) -> None:
        driver = self.technology.cells[self.technology.drive_cell].arcs[0]
        for port, nets in self.netlist.inputs.items():
            for bit, net in enumerate(nets):
                point = self.port_point.get((port, bit))
                for edge, shape in ((RISE, driver.rise), (FALL, driver.fall)):
                    if port in IDEAL_INPUTS:
                        self._arrive((net, edge), 0.0, self.technology.clock_slew, None, point)
                    else:
                        load = self.loads.get(net, 0.0)
                        time = shape.delay.at(0.0, load) - shape.delay.at(0.0, 0.0)
                        self._arrive((net, edge), time, shape.slew.at(0.0, load), None, point)

    def _from_registers(self) -> None:
        slews = {
            net: max(
                arc.rise.slew.at(self.technology.clock_slew, self.loads.get(net, 0.0))
                for arc in gate.cell.arcs
                if arc.source == gate.cell.clock_pin
            )
            for net, gate in self.netlist.clock_gates.items()
        }
        for k, instance in enumerate(self.netlist.instances):
            cell = instance.cell
            if cell.state is None or cell.clock_gate is not None:
                continue
            for arc in cell.arcs:
                if arc.source != cell.clock_pin or arc.target not in instance.pins:
                    continue
                net = instance.pins[arc.target]
                slew = slews.get(instance.pins[arc.source], self.technology.clock_slew)
                load = self.loads.get(net, 0.0)
                for edge, shape in ((RISE, arc.rise), (FALL, arc.fall)):
                    time, slope = shape.delay.at(slew, load), shape.slew.at(slew, load)
                    self._arrive((net, edge), time, slope, None, k)

    def _ends(self) -> Iterator[tuple[Net, int, float]]:
        for port, nets in self.netlist.outputs.items():
            for bit, net in enumerate(nets):
                yield net, self.port_point[port, bit], 0.0
        for k, instance in enumerate(self.netlist.instances):
            for pin, setup in instance.cell.setup.items():
                yield instance.pins[pin], k, setup

    def _finish(self) -> Timing:
        ends = list(self._ends())
        worst: tuple[float, Place, int] | None = None
        for net, point, setup in ends:
            for edge in (RISE, FALL):
                if (net, edge) in self.found:
                    time, slew, _, _ = self.found[net, edge]
                    arrival = self._at_sink(net, point, time, slew)[0] + setup
                    if worst is None or arrival > worst[0]:
                        worst = arrival, (net, edge), point
        if worst is None:
            return Timing(0.0, (), None, self.loads, {}, {}, {})
        delay, place, end = worst
        slacks, sink_slacks = self._slacks(delay, ends)
        return Timing(
            delay,
            tuple(reversed(list(self._back(place)))),
            end,
            self.loads,
            {place: (time, slew) for place, (time, slew, _, _) in self.found.items()},
            slacks,
            sink_slacks,
        )

    def _back(self, place: Place | None) -> Iterator[PathPoint]:
        while place is not None:
            time, _, cause, point = self.found[place]
            instances = self.netlist.instances
            cell = (
                instances[point].cell.name if point is not None and point < len(instances) else ""
            )
            yield PathPoint(point, cell, place[0], time, self.loads.get(place[0], 0.0))
            place = cause

    def _slacks(
        self, delay: float, ends: list[tuple[Net, int, float]]
    ) -> tuple[dict[Net, float], dict[tuple[Net, int], float]]:
        required: dict[Place, float] = {}
        at_sinks: dict[tuple[Net, int], float] = {}

        def need(net: Net, edge: int, point: int, by: float) -> None:
            """The edge of ``net`` must be at ``point`` by then."""
            known = self.found.get((net, edge))
            if known is None:
                return
            by -= self.wires.delay.get((net, point), 0.0)
            required[net, edge] = min(by, required.get((net, edge), math.inf))
            slack = by - known[0]
            at_sinks[net, point] = min(slack, at_sinks.get((net, point), math.inf))

        for net, point, setup in ends:
            for edge in (RISE, FALL):
                need(net, edge, point, delay - setup)
        for instance in reversed(self.order):
            point = self.number[id(instance)]
            for arc in instance.cell.arcs:
                if arc.source not in instance.pins or arc.target not in instance.pins:
                    continue
                source, target = instance.pins[arc.source], instance.pins[arc.target]
                load = self.loads.get(target, 0.0)
                for cause, effect in _CAUSES[arc.sense]:
                    before, by = self.found.get((source, cause)), required.get((target, effect))
                    if before is None or by is None:
                        continue
                    slope = self._at_sink(source, point, before[0], before[1])[1]
                    shape = arc.rise if effect == RISE else arc.fall
                    need(source, cause, point, by - shape.delay.at(slope, load))
        slacks: dict[Net, float] = {}
        for (net, edge), by in required.items():
            slacks[net] = min(by - self.found[net, edge][0], slacks.get(net, math.inf))
        return slacks, at_sinks
