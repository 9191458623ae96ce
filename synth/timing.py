"""Static timing of a mapped netlist.

Rising and falling edges propagate separately from every start to every end through the cells' arcs;
where paths join, the latest arrival and the slowest slew go on. There are no wires: a net's load is
its pins, plus the technology's output load where it leaves the block. OpenROAD times layouts
(:mod:`tilewright.synth.layout`).

- Inputs start at 0, later by what their load adds to the delay of the driving cell.
- Registers start at an ideal clock edge, with the clock-to-output arc at the net's load; the data
  must arrive a setup time before the next edge.
- Clock and reset are ideal: any load, arrival 0, the technology's clock slew. A gated clock arrives
  at 0 too (a clock tree would balance the gate's delay), with the slew of its gate.
- The enable of a clock gate must arrive a setup time before the edge, like register data.

A netlist is arrays here, and all arcs of a level are followed at once: whole accelerators
(:mod:`tilewright.synth.whole_timing`) have millions.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from tilewright.synth.netlist import Instance, Net, Netlist, in_signal_order
from tilewright.synth.technology import Arc, Plane, Surface, Technology
from tilewright.synth.yosys import SynthesisError

PATH_KINDS = ("input_to_output", "input_to_register", "register_to_register", "register_to_output")
IDEAL_INPUTS = frozenset({"clk", "rst"})
CONSTANT = 0  # the net of all constants: nothing ever arrives there

RISE, FALL = 0, 1
_EDGE_NAMES = ("rise", "fall")
_SAME, _OPPOSITE = ((RISE, RISE), (FALL, FALL)), ((FALL, RISE), (RISE, FALL))
_CAUSES = {"+": _SAME, "-": _OPPOSITE, "*": (*_SAME, *_OPPOSITE)}  # (cause, effect) by sense

Ints = NDArray[np.int64]
Floats = NDArray[np.float64]


@dataclass(frozen=True)
class Step:
    """One cell on a path, and the edge that leaves it."""

    cell: str
    net: str
    edge: str
    arrival: float  # ps
    slew: float  # ps
    load: float  # fF


@dataclass(frozen=True)
class TimingPath:
    delay: float  # ps, setup included
    start: str
    end: str
    setup: float  # ps
    steps: tuple[Step, ...]


@dataclass(frozen=True)
class Arcs:
    """From nets to nets, each by a kind of arc."""

    source: Ints
    target: Ints
    kind: Ints
    owner: Ints  # the instance, where there are instances


@dataclass(frozen=True)
class Network:
    """A netlist as numbers, net 0 for all constants."""

    name: str
    loads: Floats  # fF, by net
    kinds: Sequence[Arc]
    cells: Sequence[str]  # the cell of each kind
    through: Arcs  # combinational cells
    launch: Arcs  # registers and memories: from their clocks
    gates: Arcs  # clock gates: from clock to gated clock
    net_name: Callable[[int], str]
    loop_name: Callable[[int], str]  # a loop through this net
    number: dict[Net, int] = field(default_factory=dict)  # by net, where nets have names


class Wired(NamedTuple):
    """Wires in front of the arcs through cells."""

    delay: Floats  # ps, by arc
    slew_per_delay: float


class Passed(NamedTuple):
    """Arcs followed at once, from one edge to another."""

    arcs: Ints
    cause: int
    effect: int
    delay: Floats


class _Surfaces:
    """One edge's delay or slew of every kind of arc."""

    def __init__(self, surfaces: Sequence[Surface]):
        planes = [s if isinstance(s, Plane) else Plane(0.0, 0.0, 0.0) for s in surfaces]
        self.columns = np.array([[p.base, p.per_load, p.per_slew] for p in planes]).reshape(-1, 3).T
        self.surfaces = surfaces
        self.tables = np.array([not isinstance(s, Plane) for s in surfaces], dtype=bool)

    def at(self, kind: Ints, slew: Any, load: Floats) -> Floats:
        base, per_load, per_slew = self.columns[:, kind]
        values: Floats = base + per_load * load + per_slew * slew
        if self.tables.any():
            slews = np.broadcast_to(slew, len(kind))
            for n in np.flatnonzero(self.tables[kind]):
                values[n] = self.surfaces[kind[n]].at(float(slews[n]), float(load[n]))
        return values


class Arrivals:
    """Times and slews of edges, ``[edge, net]`` in ps; nets that never change have ``-inf``."""

    def __init__(self, network: Network, technology: Technology, wired: Wired | None = None):
        self.network, self.technology, self.wired = network, technology, wired
        shapes = [[arc.rise for arc in network.kinds], [arc.fall for arc in network.kinds]]
        self.delays = [_Surfaces([shape.delay for shape in edge]) for edge in shapes]
        self.slopes = [_Surfaces([shape.slew for shape in edge]) for edge in shapes]
        self.sense = np.array(["+-*".index(arc.sense) for arc in network.kinds], dtype=np.int64)
        self.levels = list(self._levels())
        self.clear()

    def clear(self) -> None:
        """Forget all arrivals."""
        self.time = np.full((2, len(self.network.loads)), -np.inf)
        self.slew = np.zeros((2, len(self.network.loads)))

    def _levels(self) -> Iterator[Ints]:
        source, target = self.network.through.source, self.network.through.target
        nets = len(self.network.loads)
        by_source = np.argsort(source, kind="stable")
        starts = np.searchsorted(source[by_source], np.arange(nets + 1))
        waiting = np.bincount(target, minlength=nets)
        ready = np.flatnonzero(waiting == 0)
        left = len(target)
        while len(ready):
            counts = starts[ready + 1] - starts[ready]
            offsets = np.repeat(starts[ready] - np.cumsum(counts) + counts, counts)
            arcs = by_source[np.arange(counts.sum()) + offsets]
            left -= len(arcs)
            if len(arcs):
                yield arcs
            reached, times = np.unique(target[arcs], return_counts=True)
            waiting[reached] -= times
            ready = reached[waiting[reached] == 0]
        if left:
            name = self.network.loop_name(int(np.flatnonzero(waiting > 0)[0]))
            raise SynthesisError(f"{self.network.name}: combinational loop through {name}")

    def _arrive(self, edge: int, nets: Ints, times: Floats, slews: Floats) -> None:
        np.maximum.at(self.time[edge], nets, times)
        np.maximum.at(self.slew[edge], nets, slews)

    def from_inputs(self, inputs: Mapping[str, Ints]) -> None:
        """Start at the ports."""
        driver = self.technology.cells[self.technology.drive_cell].arcs[0]
        for port, nets in inputs.items():
            still, first = np.zeros(len(nets)), np.zeros(len(nets), dtype=np.int64)
            loads = self.network.loads[nets]
            for edge, shape in ((RISE, driver.rise), (FALL, driver.fall)):
                if port in IDEAL_INPUTS:
                    self._arrive(edge, nets, still, still + self.technology.clock_slew)
                    continue
                delay, slope = _Surfaces([shape.delay]), _Surfaces([shape.slew])
                times = delay.at(first, still, loads) - delay.at(first, still, still)
                self._arrive(edge, nets, times, slope.at(first, still, loads))
        self.time[:, CONSTANT] = -np.inf

    def from_registers(self) -> None:
        """Start at registers and memories, after the clock edge."""
        launch, gates, loads = self.network.launch, self.network.gates, self.network.loads
        clock_slew = np.full(len(loads), self.technology.clock_slew)
        gated = np.zeros(len(loads))
        rise = self.slopes[RISE].at(gates.kind, self.technology.clock_slew, loads[gates.target])
        np.maximum.at(gated, gates.target, rise)
        clock_slew[gates.target] = gated[gates.target]
        slews = clock_slew[launch.source]
        for edge in (RISE, FALL):
            at = (launch.kind, slews, loads[launch.target])
            self._arrive(edge, launch.target, self.delays[edge].at(*at), self.slopes[edge].at(*at))
        self.time[:, CONSTANT] = -np.inf

    def propagate(self) -> Iterator[Passed]:
        """Follow the arcs, lazily, level by level."""
        kinds, target = self.network.through.kind, self.network.through.target
        for level in self.levels:
            sense = self.sense[kinds[level]]
            for number, symbol in enumerate("+-*"):
                arcs = level[sense == number]
                for cause, effect in _CAUSES[symbol] if len(arcs) else ():
                    live = arcs[self.time[cause, self.network.through.source[arcs]] > -np.inf]
                    times, slews, delay = self._through(live, cause, effect)
                    self._arrive(effect, target[live], times, slews)
                    yield Passed(live, cause, effect, delay)
            self.time[:, CONSTANT] = -np.inf

    def settle(self) -> None:
        """Follow all arcs to their ends."""
        for _ in self.propagate():
            pass

    def _through(self, arcs: Ints, cause: int, effect: int) -> tuple[Floats, Floats, Floats]:
        through = self.network.through
        source, kind = through.source[arcs], through.kind[arcs]
        load, slew = self.network.loads[through.target[arcs]], self.slew[cause, source]
        time = self.time[cause, source]
        if self.wired is not None:
            wire = self.wired.delay[arcs]
            slope = np.sqrt(slew**2 + (self.wired.slew_per_delay * wire) ** 2)
            time, slew = time + wire, np.where(wire > 0, slope, slew)
        delay = self.delays[effect].at(kind, slew, load)
        return time + delay, self.slopes[effect].at(kind, slew, load), delay

    def cause(self, net: int, edge: int) -> tuple[int | None, tuple[int, int] | None]:
        """Kind of the arc that sets an arrival, and the net and edge at its source."""
        through, launch = self.network.through, self.network.launch
        best: tuple[float, int, tuple[int, int]] | None = None
        for arc in np.flatnonzero(through.target == net):
            kind, source = int(through.kind[arc]), int(through.source[arc])
            for cause, effect in _CAUSES[self.network.kinds[kind].sense]:
                if effect == edge and self.time[cause, source] > -np.inf:
                    time = float(self._through(np.array([arc]), cause, edge)[0][0])
                    if best is None or time > best[0]:
                        best = time, kind, (source, cause)
        if best is not None:
            return best[1:]
        starts = launch.kind[launch.target == net]
        return (int(starts[0]) if len(starts) else None), None

    def path(
        self, net: int, edge: int, end: str, setup: float, start_name: Callable[[int], str]
    ) -> TimingPath:
        """Trace the path that sets an arrival, and on to ``end``."""
        delay = float(self.time[edge, net]) + setup
        steps = []
        while True:
            kind, before = self.cause(net, edge)
            steps.append(
                Step(
                    cell="" if kind is None else self.network.cells[kind],
                    net=self.network.net_name(net),
                    edge=_EDGE_NAMES[edge],
                    arrival=float(self.time[edge, net]),
                    slew=float(self.slew[edge, net]),
                    load=float(self.network.loads[net]),
                )
            )
            if before is None:
                return TimingPath(delay, start_name(net), end, setup, tuple(reversed(steps)))
            net, edge = before


def longest_paths(netlist: Netlist, technology: Technology) -> dict[str, TimingPath]:
    """The longest path of each kind that exists, keys in the order of ``PATH_KINDS``."""
    network = network_of(netlist, technology)
    arrivals = Arrivals(network, technology)
    registers = {
        int(net): netlist.instances[k]
        for net, k in zip(network.launch.target, network.launch.owner, strict=True)
    }

    def start_name(net: int) -> str:
        held = registers.get(net)
        return network.net_name(net) if held is None else register_name(held, netlist)

    def from_inputs() -> None:
        ports = netlist.inputs.items()
        arrivals.from_inputs({port: numbers_of(network, nets) for port, nets in ports})

    found: dict[str, TimingPath] = {}
    for start, launch in (("input", from_inputs), ("register", arrivals.from_registers)):
        arrivals.clear()
        launch()
        arrivals.settle()
        for end, ends in (("output", _output_ends(netlist)), ("register", _register_ends(netlist))):
            latest = _latest(network, arrivals, ends)
            if latest is not None:
                found[f"{start}_to_{end}"] = arrivals.path(*latest, start_name)
    return {kind: found[kind] for kind in PATH_KINDS if kind in found}


def numbers_of(network: Network, nets: Iterable[Net]) -> Ints:
    """Numbers of nets, unknown ones as the constant."""
    return np.array([network.number.get(net, CONSTANT) for net in nets], dtype=np.int64)


def network_of(netlist: Netlist, technology: Technology) -> Network:
    """The arrays of a netlist without wires."""
    number: dict[Net, int] = {}

    def count(nets: Iterable[Net]) -> None:
        for net in nets:
            if isinstance(net, int):
                number.setdefault(net, len(number) + 1)

    for port in (*netlist.inputs.values(), *netlist.outputs.values()):
        count(port)
    members: dict[int, list[int]] = {}  # by cell
    pins: list[int] = []
    weights: list[float] = []
    for k, instance in enumerate(netlist.instances):
        count(instance.pins.values())
        members.setdefault(id(instance.cell), []).append(k)
        for pin, capacitance in instance.cell.inputs.items():
            pins.append(number.get(instance.pins[pin], CONSTANT))
            weights.append(capacitance)
    for nets in netlist.outputs.values():
        pins += [number.get(net, CONSTANT) for net in nets]
        weights += [technology.output_load] * len(nets)
    loads = np.bincount(np.array(pins, dtype=np.int64), weights, len(number) + 1)

    kinds: list[Arc] = []
    cells: list[str] = []
    found: dict[str, list[tuple[int, int, int, int]]] = {"through": [], "launch": [], "gates": []}
    for own in members.values():
        cell = netlist.instances[own[0]].cell
        of_state = "launch" if cell.clock_gate is None else "gates"
        group = found["through" if cell.state is None else of_state]
        for arc in cell.arcs:
            if cell.state is not None and arc.source != cell.clock_pin:
                continue
            for k in own:
                wiring = netlist.instances[k].pins
                if arc.source in wiring and arc.target in wiring:
                    source = number.get(wiring[arc.source], CONSTANT)
                    target = number.get(wiring[arc.target], CONSTANT)
                    group.append((source, target, len(kinds), k))
            kinds.append(arc)
            cells.append(cell.name)
    tables = {name: np.array(a, dtype=np.int64).reshape(-1, 4).T for name, a in found.items()}
    names = {k: netlist.net_names[net] for net, k in number.items() if net in netlist.net_names}

    def loop_name(net: int) -> str:
        in_signal_order(netlist)  # says where the loop is
        return names.get(net, "")

    return Network(
        name=netlist.name,
        loads=loads.astype(np.float64),
        kinds=kinds,
        cells=cells,
        **{name: Arcs(*columns) for name, columns in tables.items()},
        net_name=lambda net: names.get(net, ""),
        loop_name=loop_name,
        number=number,
    )


def register_name(instance: Instance, netlist: Netlist) -> str:
    """The signal a register holds, after which the flow names it; a memory has its own name."""
    if instance.cell.memory_bits:
        return instance.name
    for pin in instance.cell.outputs:
        name = netlist.net_names.get(instance.pins.get(pin, ""))
        if name is not None:
            return name
    return instance.name.partition("$_")[0]


_End = tuple[Net, str, float]  # net, name, setup


def _output_ends(netlist: Netlist) -> list[_End]:
    return [
        (net, f"{port}[{k}]" if len(nets) > 1 else port, 0.0)
        for port, nets in netlist.outputs.items()
        for k, net in enumerate(nets)
    ]


def _register_ends(netlist: Netlist) -> list[_End]:
    return [
        (instance.pins[pin], register_name(instance, netlist), setup)
        for instance in netlist.instances
        for pin, setup in instance.cell.setup.items()
    ]


def _latest(
    network: Network, arrivals: Arrivals, ends: Sequence[_End]
) -> tuple[int, int, str, float] | None:
    nets = numbers_of(network, (net for net, _, _ in ends))
    late = arrivals.time[:, nets] + np.array([setup for _, _, setup in ends])
    latest = late.max(initial=-np.inf)
    if latest == -np.inf:
        return None
    # Ties are broken by name, so that the answer does not depend on the order of the netlist.
    places = np.argwhere(np.equal(late.T, latest)).tolist()
    k, edge = max(places, key=lambda place: ends[place[0]][1])
    _, name, setup = ends[k]
    return int(nets[k]), edge, name, setup
