"""Static timing of a placed netlist: as ``tilewright.synth.timing``, with wires.

A cell drives the pins of its net and its whole wire, lumped; then the wire's Elmore delay passes to
each sink, and slopes grow by it (the root of the squares of the driver's slew and the wire's own).
Without wires the delays are those of ``tilewright.synth.timing`` to the last bit.

Cells are taken level by level, all arcs of a level at once (:mod:`tilewright.synth.place.arcs`):
every round of timing repair looks at the whole netlist again.
"""

import math
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from tilewright.synth.netlist import Net, Netlist
from tilewright.synth.place.arcs import Arcs, Graph, graph_of, planes_of
from tilewright.synth.place.wires import Wires
from tilewright.synth.place.wiring import Floats, Ints, Wiring
from tilewright.synth.technology import Technology
from tilewright.synth.timing import FALL, IDEAL_INPUTS, RISE

__all__ = ["PathPoint", "Timing", "time_placed"]


@dataclass(frozen=True)
class PathPoint:
    """A step of the longest path: the point that drives ``net``, and when."""

    point: int | None  # None where it is an input that no point stands for
    cell: str
    net: Net
    arrival: float  # ps, at the driver
    load: float  # fF, wire included


def time_placed(
    netlist: Netlist, technology: Technology, wiring: Wiring, wires: Wires | None = None
) -> "Timing":
    """Find the longest path, and how much every net has left to it; without ``wires``, none."""
    return Timing(netlist, technology, wiring, wires)


class Timing:
    """What is known of every net; times in ps, loads in fF.

    Arrays of edges have two places for a net, at ``2 * net + edge``, nets as ``graph`` counts them.
    What never changes has the arrival ``-inf``.
    """

    def __init__(
        self, netlist: Netlist, technology: Technology, wiring: Wiring, wires: Wires | None
    ):
        self.netlist, self.technology, self.wiring = netlist, technology, wiring
        self.graph: Graph = graph_of(netlist, wiring)
        self._pin_delays = np.append(np.zeros(len(wiring.points)), 0.0)  # the last: no wire
        self._loads = self.graph.pin_loads(technology.output_load)
        if wires is not None:
            self._pin_delays[:-1] = wires.delays
            self._loads[self.graph.wired_nets] += wires.lengths * wires.ff_per_um
        low, high = technology.slew_thresholds
        self._per_delay = math.log((100 - low) / (100 - high))  # slew of an RC over its delay
        self._time = np.full(2 * len(self._loads), -np.inf)
        self._slew = np.full(2 * len(self._loads), -np.inf)
        self._from_inputs()
        self._from_registers()
        self._arc_delays = [self._through(arcs) for arcs in self.graph.levels]
        self._find_longest()

    def _arrive(self, places: Ints, times: Floats, slews: Floats) -> None:
        np.maximum.at(self._time, places, times)
        np.maximum.at(self._slew, places, slews)

    def _from_inputs(self) -> None:
        driver = self.technology.cells[self.technology.drive_cell].arcs[0]
        for port, nets in self.netlist.inputs.items():
            places = np.array([self.graph.index[net] for net in nets], dtype=np.int64)
            loads = self._loads[places]
            for edge, shape in ((RISE, driver.rise), (FALL, driver.fall)):
                if port in IDEAL_INPUTS:
                    slews = np.full(len(places), self.technology.clock_slew)
                    self._arrive(2 * places + edge, np.zeros(len(places)), slews)
                    continue
                delay, slew = (planes_of([s], [len(places)]) for s in (shape.delay, shape.slew))
                still = np.zeros(len(places))
                times = delay.at(still, loads) - delay.at(still, still)
                self._arrive(2 * places + edge, times, slew.at(still, loads))

    def _from_registers(self) -> None:
        clock_slews = np.full(len(self._loads), self.technology.clock_slew)
        for net, gate in self.netlist.clock_gates.items():
            place = self.graph.index[net]
            clock_slews[place] = max(
                arc.rise.slew.at(self.technology.clock_slew, float(self._loads[place]))
                for arc in gate.cell.arcs
                if arc.source == gate.cell.clock_pin
            )
        arcs = self.graph.launches
        slews, loads = clock_slews[arcs.sources // 2], self._loads[arcs.targets // 2]
        self._arrive(arcs.targets, arcs.delay.at(slews, loads), arcs.slew.at(slews, loads))

    def _through(self, arcs: Arcs) -> Floats:
        """Pass the cells of one level; returns the delay of each of its arcs."""
        wire = self._pin_delays[arcs.pins]
        wire_slew = self._per_delay * wire
        known = self._time[arcs.sources] > -np.inf
        at_driver = np.where(known, self._slew[arcs.sources], 0.0)
        slope = np.where(wire > 0, np.sqrt(at_driver**2 + wire_slew**2), at_driver)
        load = self._loads[arcs.targets // 2]
        delay = arcs.delay.at(slope, load)
        times = self._time[arcs.sources] + wire + delay
        slews = np.where(known, arcs.slew.at(slope, load), -np.inf)
        self._arrive(arcs.targets, times, slews)
        return delay

    def _find_longest(self) -> None:
        ends = self.graph.ends
        arrivals = self._time[ends.places] + self._pin_delays[ends.pins] + ends.setups
        self.delay, self.end = 0.0, None  # of the longest path, setup included; where it ends
        self.path: tuple[PathPoint, ...] = ()
        if len(arrivals) and arrivals.max() > -np.inf:
            worst = int(np.argmax(arrivals))
            self.delay, self.end = float(arrivals[worst]), int(ends.points[worst])
            self.path = tuple(reversed(list(self._back(int(ends.places[worst])))))

    def _back(self, place: int) -> Iterator[PathPoint]:
        """From an edge of a net to the start of the path that made it so late."""
        instances = self.netlist.instances
        while True:
            net = place // 2
            point = self.graph.driver_point(net)
            cell = "" if point is None or point >= len(instances) else instances[point].cell.name
            arrival, load = float(self._time[place]), float(self._loads[net])
            yield PathPoint(point, cell, self.graph.nets[net], arrival, load)
            cause = None if point is None else self._cause(place, point)
            if cause is None:
                return
            place = cause

    def _cause(self, place: int, point: int) -> int | None:
        """The edge that made an edge at the output of the cell at ``point`` so late."""
        level = self.graph.level_of(point)
        for k in () if level is None else (2 * level, 2 * level + 1):
            arcs, delays = self.graph.levels[k], self._arc_delays[k]
            times = self._time[arcs.sources] + self._pin_delays[arcs.pins] + delays
            causes = np.flatnonzero((arcs.targets == place) & (times == self._time[place]))
            if len(causes):
                return int(arcs.sources[causes[0]])
        return None

    @cached_property
    def _required(self) -> tuple[Floats, Floats]:
        """When each edge must be there for the delay to stay, and the slack at each pin."""
        required = np.full(len(self._time), np.inf)
        at_pins = np.full(len(self._pin_delays), np.inf)

        def need(sources: Ints, pins: Ints, by: Floats) -> None:
            by = by - self._pin_delays[pins]
            known = self._time[sources] > -np.inf
            sources, pins, by = sources[known], pins[known], by[known]
            np.minimum.at(required, sources, by)
            np.minimum.at(at_pins, pins, by - self._time[sources])

        ends = self.graph.ends
        need(ends.places, ends.pins, self.delay - ends.setups)
        for arcs, delays in zip(
            reversed(self.graph.levels), reversed(self._arc_delays), strict=True
        ):
            need(arcs.sources, arcs.pins, required[arcs.targets] - delays)
        return required, at_pins[:-1]

    @cached_property
    def loads(self) -> dict[Net, float]:
        """fF that each net's driver sees, wire included."""
        return dict(zip(self.graph.nets, self._loads.tolist(), strict=True))

    @cached_property
    def arrivals(self) -> dict[Net, float]:
        """The later edge of each net that changes, at its driver."""
        later = self._time.reshape(-1, 2).max(axis=1).tolist()
        return {n: t for n, t in zip(self.graph.nets, later, strict=True) if t > -math.inf}

    @cached_property
    def slews(self) -> dict[Net, float]:
        """The slower edge of each net that changes, at its driver."""
        slower = self._slew.reshape(-1, 2).max(axis=1).tolist()
        return {n: s for n, s in zip(self.graph.nets, slower, strict=True) if s > -math.inf}

    @cached_property
    def slacks(self) -> dict[Net, float]:
        """Of each net on a path, against ``delay``, at its driver."""
        required, _ = self._required
        known = (required < np.inf) & (self._time > -np.inf)
        slack = np.full(len(required), np.inf)
        slack[known] = required[known] - self._time[known]
        least = slack.reshape(-1, 2).min(axis=1).tolist()
        return {n: s for n, s in zip(self.graph.nets, least, strict=True) if s < math.inf}

    @cached_property
    def sink_slacks(self) -> dict[tuple[Net, int], float]:
        """The same at the points of the nets that have wires."""
        w = self.wiring
        places = zip(w.net_of_pin.tolist(), w.points.tolist(), strict=True)
        slacks = self._required[1].tolist()
        found = zip(places, slacks, strict=True)
        return {(w.nets[k], point): slack for (k, point), slack in found if slack < math.inf}
