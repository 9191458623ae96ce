"""Static timing of a placed netlist: as ``tilewright.synth.timing``, with wires.

A cell drives the pins of its net and its whole wire, lumped; then the wire's Elmore delay passes to
each sink, and slopes grow by it (the root of the squares of the driver's slew and the wire's own).
Without wires the delays are those of ``tilewright.synth.timing`` to the last bit.

Every round of timing repair looks at the whole netlist again.
"""

import math
from functools import cached_property

import numpy as np

from tilewright.synth.netlist import Net, Netlist
from tilewright.synth.place.wires import Wires, Wiring
from tilewright.synth.technology import Arc, Plane, Surface, Technology
from tilewright.synth.timing import (
    FALL,
    RISE,
    Arrivals,
    Floats,
    Ints,
    Wired,
    network_of,
    numbers_of,
)


class Timing:
    """What is known of every net; times in ps, loads in fF."""

    def __init__(
        self, netlist: Netlist, technology: Technology, wiring: Wiring, wires: Wires | None
    ):
        self.netlist, self.wiring = netlist, wiring
        network = network_of(netlist, technology)
        if not all(isinstance(s, Plane) for arc in network.kinds for s in _surfaces(arc)):
            raise ValueError("placement needs the compact tables of a technology, linear in slew")
        self.number = network.number
        self._pin_delays = np.append(np.zeros(len(wiring.points)), 0.0)  # the last: no wire
        pins = _Pins(wiring, self.number)
        through = network.through
        self._pins = pins.at(through.source, through.owner)
        if wires is not None:
            self._pin_delays[:-1] = wires.delays
            network.loads[pins.nets] += wires.lengths * wires.ff_per_um
        low, high = technology.slew_thresholds
        per_delay = math.log((100 - low) / (100 - high))  # slew of an RC over its delay
        self._network = network
        self._arrivals = Arrivals(
            network, technology, Wired(self._pin_delays[self._pins], per_delay)
        )
        ports = netlist.inputs.items()
        self._arrivals.from_inputs({port: numbers_of(network, nets) for port, nets in ports})
        self._arrivals.from_registers()
        self._passed = list(self._arrivals.propagate())
        self._time = self._arrivals.time
        self._find_longest(pins)

    def _find_longest(self, pins: "_Pins") -> None:
        at_port = {port: self.wiring.instances + n for n, port in enumerate(self.wiring.ports)}
        found = [
            (net, at_port[port, bit], 0.0)
            for port, nets in self.netlist.outputs.items()
            for bit, net in enumerate(nets)
        ]
        found += [
            (instance.pins[pin], k, setup)
            for k, instance in enumerate(self.netlist.instances)
            for pin, setup in instance.cell.setup.items()
        ]
        self._ends = numbers_of(self._network, (net for net, _, _ in found))
        points = np.array([point for _, point, _ in found], dtype=np.int64)
        self._end_pins = pins.at(self._ends, points)
        self._setups = np.array([setup for _, _, setup in found])
        late = self._time[:, self._ends] + self._pin_delays[self._end_pins] + self._setups
        self.delay = float(late.max(initial=0.0))  # of the longest path, setup included

    @cached_property
    def _required(self) -> tuple[Floats, Floats]:
        """When each edge must be there for the delay to stay, and the slack at each pin."""
        required = np.full(self._time.shape, np.inf)
        at_pins = np.full(len(self._pin_delays), np.inf)

        def need(edge: int, sources: Ints, pins: Ints, by: Floats) -> None:
            by = by - self._pin_delays[pins]
            known = self._time[edge, sources] > -np.inf
            sources, pins, by = sources[known], pins[known], by[known]
            np.minimum.at(required[edge], sources, by)
            np.minimum.at(at_pins, pins, by - self._time[edge, sources])

        for edge in (RISE, FALL):
            need(edge, self._ends, self._end_pins, self.delay - self._setups)
        through = self._network.through
        for arcs, cause, effect, delay in reversed(self._passed):
            by = required[effect, through.target[arcs]] - delay
            need(cause, through.source[arcs], self._pins[arcs], by)
        return required, at_pins[:-1]

    def _of_nets(self, values: Floats) -> dict[Net, float]:
        """The finite ones among the values of all nets."""
        of_each = zip(self.number, values[1:].tolist(), strict=True)
        return {net: value for net, value in of_each if math.isfinite(value)}

    @cached_property
    def loads(self) -> dict[Net, float]:
        """fF that each net's driver sees, wire included."""
        return self._of_nets(self._network.loads)

    @cached_property
    def arrivals(self) -> dict[Net, float]:
        """The later edge of each net that changes, at its driver."""
        return self._of_nets(self._time.max(axis=0))

    @cached_property
    def slews(self) -> dict[Net, float]:
        """The slower edge of each net that changes, at its driver."""
        changes = self._time.max(axis=0) > -np.inf
        return self._of_nets(np.where(changes, self._arrivals.slew.max(axis=0), np.inf))

    @cached_property
    def slacks(self) -> dict[Net, float]:
        """Of each net on a path, against ``delay``, at its driver."""
        required, _ = self._required
        known = (required < np.inf) & (self._time > -np.inf)
        slack = np.full(required.shape, np.inf)
        slack[known] = required[known] - self._time[known]
        return self._of_nets(slack.min(axis=0))

    @cached_property
    def sink_slacks(self) -> dict[tuple[Net, int], float]:
        """The same at the points of the nets that have wires."""
        w = self.wiring
        places = zip(w.net_of_pin.tolist(), w.points.tolist(), strict=True)
        slacks = self._required[1].tolist()
        found = zip(places, slacks, strict=True)
        return {(w.nets[k], point): slack for (k, point), slack in found if slack < math.inf}


def _surfaces(arc: Arc) -> tuple[Surface, ...]:
    return arc.rise.delay, arc.rise.slew, arc.fall.delay, arc.fall.slew


class _Pins:
    """Finds the place in the wiring of a net at a point; one more than the last without a wire."""

    def __init__(self, wiring: Wiring, number: dict[Net, int]):
        self.none, self.points = len(wiring.points), wiring.instances + len(wiring.ports)
        self.nets = np.array([number[net] for net in wiring.nets], dtype=np.int64)
        keys = self.nets[wiring.net_of_pin] * self.points + wiring.points
        self.order = np.argsort(keys, kind="stable")
        self.keys = keys[self.order]

    def at(self, nets: Ints, points: Ints) -> Ints:
        if not self.none:
            return np.zeros(len(nets), dtype=np.int64)
        keys = nets * self.points + points
        place = np.minimum(np.searchsorted(self.keys, keys), self.none - 1)
        return np.where(self.keys[place] == keys, self.order[place], self.none)
