"""Static timing of a mapped netlist.

Rising and falling edges are followed apart from every start to every end through the cells' arcs;
where paths meet, the latest arrival and the slowest slew go on. There are no wires: a net's load
is its pins, plus the technology's output load where it leaves the block.

- Inputs start at 0, later by what their load adds to the delay of the driving cell.
- Registers start at an ideal clock edge, with the clock-to-output arc at the net's load; the data
  must arrive a setup time before the next edge.
- Clock and reset are ideal: any load, arrival 0, the technology's clock slew. The clock behind a
  gate arrives at 0 too (a clock tree would balance the gate's delay), with the slew that the gate
  gives it.
- The enable of a clock gate must arrive a setup time before the edge, as data of a register.
"""

from collections.abc import Iterable
from dataclasses import dataclass

from tilewright.synth.netlist import Instance, Net, Netlist, in_signal_order
from tilewright.synth.technology import Arc, Technology

__all__ = ["PATH_KINDS", "Step", "TimingPath", "longest_paths"]

PATH_KINDS = ("input_to_output", "input_to_register", "register_to_register", "register_to_output")
IDEAL_INPUTS = frozenset({"clk", "rst"})

RISE, FALL = 0, 1
_EDGE_NAMES = ("rise", "fall")
_SAME, _OPPOSITE = ((RISE, RISE), (FALL, FALL)), ((FALL, RISE), (RISE, FALL))
_CAUSES = {"+": _SAME, "-": _OPPOSITE, "*": (*_SAME, *_OPPOSITE)}  # (cause, effect) by sense


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


@dataclass(frozen=True, slots=True)
class _Arrival:
    time: float
    slew: float
    origin: str  # name of the start
    cause: "tuple[Net, int] | None"  # net and edge this one came from
    cell: str


_Arrivals = dict[tuple[Net, int], _Arrival]


def longest_paths(netlist: Netlist, technology: Technology) -> dict[str, TimingPath]:
    """The longest path of each kind that exists, keys in the order of ``PATH_KINDS``."""
    loads = _loads(netlist, technology)
    order = in_signal_order(netlist)
    found: dict[str, TimingPath] = {}
    for start, arrivals in (
        ("input", _from_inputs(netlist, technology, loads)),
        ("register", _from_registers(netlist, technology, loads)),
    ):
        _propagate(order, loads, arrivals)
        for end, ends in (("output", _output_ends(netlist)), ("register", _register_ends(netlist))):
            path = _longest(netlist, loads, arrivals, ends)
            if path is not None:
                found[f"{start}_to_{end}"] = path
    return {kind: found[kind] for kind in PATH_KINDS if kind in found}


def _loads(netlist: Netlist, technology: Technology) -> dict[Net, float]:
    loads: dict[Net, float] = {}
    for instance in netlist.instances:
        for pin, capacitance in instance.cell.inputs.items():
            net = instance.pins[pin]
            loads[net] = loads.get(net, 0.0) + capacitance
    for nets in netlist.outputs.values():
        for net in nets:
            loads[net] = loads.get(net, 0.0) + technology.output_load
    return loads


def _from_inputs(netlist: Netlist, technology: Technology, loads: dict[Net, float]) -> _Arrivals:
    driver = technology.cells[technology.drive_cell].arcs[0]
    arrivals: _Arrivals = {}
    for port, nets in netlist.inputs.items():
        for net in nets:
            name = netlist.net_names[net]
            for edge, shape in ((RISE, driver.rise), (FALL, driver.fall)):
                if port in IDEAL_INPUTS:
                    arrivals[net, edge] = _Arrival(0.0, technology.clock_slew, name, None, "")
                else:
                    load = loads.get(net, 0.0)
                    time = shape.delay.at(0.0, load) - shape.delay.at(0.0, 0.0)
                    arrivals[net, edge] = _Arrival(time, shape.slew.at(0.0, load), name, None, "")
    return arrivals


def _from_registers(netlist: Netlist, technology: Technology, loads: dict[Net, float]) -> _Arrivals:
    arrivals: _Arrivals = {}
    slews = _gated_slews(netlist, technology, loads)
    for instance in netlist.instances:
        cell = instance.cell
        for arc in cell.arcs:
            if (
                cell.state is None
                or cell.clock_gate is not None
                or arc.source != cell.clock_pin
                or arc.target not in instance.pins
            ):
                continue
            net = instance.pins[arc.target]
            slew = slews.get(instance.pins[arc.source], technology.clock_slew)
            for edge, shape in ((RISE, arc.rise), (FALL, arc.fall)):
                load = loads.get(net, 0.0)
                arrivals[net, edge] = _Arrival(
                    shape.delay.at(slew, load),
                    shape.slew.at(slew, load),
                    register_name(instance, netlist),
                    None,
                    cell.name,
                )
    return arrivals


def _gated_slews(
    netlist: Netlist, technology: Technology, loads: dict[Net, float]
) -> dict[Net, float]:
    """Of the rising edge of each gated clock."""
    return {
        net: max(
            arc.rise.slew.at(technology.clock_slew, loads.get(net, 0.0))
            for arc in gate.cell.arcs
            if arc.source == gate.cell.clock_pin
        )
        for net, gate in netlist.clock_gates.items()
    }


def register_name(instance: Instance, netlist: Netlist) -> str:
    """The signal a register holds; the flow calls registers after it, plus ``$_KIND_``.

    A memory macro has its own name.
    """
    if instance.cell.memory_bits:
        return instance.name
    for pin in instance.cell.outputs:
        name = netlist.net_names.get(instance.pins.get(pin, ""))
        if name is not None:
            return name
    return instance.name.partition("$_")[0]


def _propagate(order: list[Instance], loads: dict[Net, float], arrivals: _Arrivals) -> None:
    for instance in order:
        pins, cell = instance.pins, instance.cell
        for arc in cell.arcs:
            if arc.source in pins and arc.target in pins:
                _follow(arc, pins[arc.source], pins[arc.target], cell.name, loads, arrivals)


def _follow(
    arc: Arc,
    source: Net,
    target: Net,
    cell: str,
    loads: dict[Net, float],
    arrivals: _Arrivals,
) -> None:
    load = loads.get(target, 0.0)
    for cause, effect in _CAUSES[arc.sense]:
        before = arrivals.get((source, cause))
        if before is None:
            continue
        shape = arc.rise if effect == RISE else arc.fall
        time = before.time + shape.delay.at(before.slew, load)
        slew = shape.slew.at(before.slew, load)
        known = arrivals.get((target, effect))
        if known is None or time > known.time:
            slew = slew if known is None else max(slew, known.slew)
            arrivals[target, effect] = _Arrival(time, slew, before.origin, (source, cause), cell)
        elif slew > known.slew:
            arrivals[target, effect] = _Arrival(
                known.time, slew, known.origin, known.cause, known.cell
            )


_End = tuple[Net, str, float]  # net, name, setup


def _output_ends(netlist: Netlist) -> Iterable[_End]:
    for port, nets in netlist.outputs.items():
        for k, net in enumerate(nets):
            yield net, f"{port}[{k}]" if len(nets) > 1 else port, 0.0


def _register_ends(netlist: Netlist) -> Iterable[_End]:
    for instance in netlist.instances:
        for pin, setup in instance.cell.setup.items():
            yield instance.pins[pin], register_name(instance, netlist), setup


def _longest(
    netlist: Netlist, loads: dict[Net, float], arrivals: _Arrivals, ends: Iterable[_End]
) -> TimingPath | None:
    # Ties are broken by name, so that the answer does not depend on the order of the netlist.
    best: tuple[float, str, Net, int, float] | None = None
    for net, name, setup in ends:
        for edge in (RISE, FALL):
            arrival = arrivals.get((net, edge))
            if arrival is None:
                continue
            candidate = (arrival.time + setup, name, net, edge, setup)
            if best is None or candidate[:2] > best[:2]:
                best = candidate
    if best is None:
        return None
    delay, name, net, edge, setup = best
    steps = [_step(netlist, loads, arrivals, (net, edge))]
    origin = arrivals[net, edge].origin
    cause = arrivals[net, edge].cause
    while cause is not None:
        steps.append(_step(netlist, loads, arrivals, cause))
        cause = arrivals[cause].cause
    return TimingPath(delay, origin, name, setup, tuple(reversed(steps)))


def _step(
    netlist: Netlist, loads: dict[Net, float], arrivals: _Arrivals, place: tuple[Net, int]
) -> Step:
    net, edge = place
    arrival = arrivals[place]
    return Step(
        cell=arrival.cell,
        net=netlist.net_names.get(net, ""),
        edge=_EDGE_NAMES[edge],
        arrival=arrival.time,
        slew=arrival.slew,
        load=loads.get(net, 0.0),
    )
