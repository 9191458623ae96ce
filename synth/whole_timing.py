"""Static timing of a whole accelerator: the clock that it holds, from its mapped netlist.

The rules are those of :mod:`tilewright.synth.timing`, which also follows the arcs. Every module is
mapped by itself, for the least area, so nothing is optimised across modules; and since a module is
mapped without knowing what it will drive, nets whose load is beyond what the library allows their
driver get a tree of the library's strongest buffer, as any flow would insert. Clock and reset stay
ideal.
"""

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from tilewright.synth.expand import CONSTANT, Expanded
from tilewright.synth.technology import Cell, Plane, Technology
from tilewright.synth.timing import (
    FALL,
    IDEAL_INPUTS,
    PATH_KINDS,
    RISE,
    Arcs,
    Arrivals,
    Floats,
    Network,
    TimingPath,
)
from tilewright.synth.yosys import SynthesisError

__all__ = ["Buffers", "WholeTiming", "insert_buffers", "time_whole"]

# The part of its greatest load that a buffer of a tree gets: the more, the slower each, the fewer.
FILL = 0.25


@dataclass(frozen=True)
class Buffers:
    """What :func:`insert_buffers` added."""

    nets: int  # that were too heavy for their drivers
    cells: int
    area: float  # um2


@dataclass(frozen=True)
class WholeTiming:
    """The longest path of each kind, and the longest from register to register by its end."""

    paths: dict[str, TimingPath]
    by_part: dict[str, float]  # ps, by the module directly inside the whole that holds the end

    @property
    def period(self) -> float:
        """The least clock period in ps."""
        return max((path.delay for path in self.paths.values()), default=0.0)


def insert_buffers(design: Expanded, technology: Technology) -> Buffers:
    """Give every net that is too heavy for its driver a tree of buffers, in place."""
    buffer = _strongest_buffer(technology)
    (pin_load,) = buffer.inputs.values()
    limit = FILL * (buffer.max_load or 0.0)
    kind = len(design.kinds)
    design.kinds.append(buffer.arcs[0])
    design.kind_cells.append(buffer.name)
    allowed = _allowed(design, technology)
    loads = _loads(design, technology)
    heavy = np.flatnonzero((loads > allowed) & (allowed > 0))
    order = np.argsort(design.pin_net, kind="stable")
    starts = np.searchsorted(design.pin_net[order], np.arange(design.nets + 1))
    pin_net, nets = design.pin_net.copy(), design.nets
    new_net: list[int] = []  # of the buffers' inputs
    new_target: list[int] = []
    for net in heavy:
        pins = list(order[starts[net] : starts[net + 1]])
        weights = [float(design.pin_load[p]) for p in pins]
        while len(pins) > 1 and sum(weights) > min(allowed[net], limit):
            grouped: list[int] = []
            for group in _groups(weights, limit):
                target, nets = nets, nets + 1
                for k in group:
                    if pins[k] >= 0:
                        pin_net[pins[k]] = target
                    else:
                        new_net[~pins[k]] = target
                grouped.append(~len(new_net))
                new_net.append(int(net))
                new_target.append(target)
            if len(grouped) == len(pins):
                break  # every pin alone is as heavy as a buffer may have
            pins, weights = grouped, [pin_load] * len(grouped)
    count, first = len(new_net), len(pin_net)
    design.pin_net = np.concatenate([pin_net, np.array(new_net, dtype=np.int64)])
    design.pin_load = np.concatenate([design.pin_load, np.full(count, pin_load)])
    design.pin_is_clock = np.concatenate([design.pin_is_clock, np.zeros(count, dtype=bool)])
    targets = np.array(new_target, dtype=np.int64)
    added = np.stack([first + np.arange(count), targets, np.full(count, kind)])
    design.through = np.concatenate([design.through, added], axis=1)
    strengths = np.full(nets - design.nets, buffer.max_load or 0.0)
    design.strength = np.concatenate([design.strength, strengths])
    design.nets = nets
    design.cells += count
    design.logic_area += count * buffer.area
    return Buffers(len(heavy), count, count * buffer.area)


def time_whole(design: Expanded, technology: Technology) -> WholeTiming:
    """The longest paths of a design, in its arrays."""
    arrivals = Arrivals(_network(design, technology), technology)
    found: dict[str, TimingPath] = {}
    by_part: dict[str, float] = {}
    for start in ("input", "register"):
        arrivals.clear()
        if start == "input":
            arrivals.from_inputs(design.inputs)
        else:
            arrivals.from_registers()
        arrivals.settle()
        ends = {"output": _to_output(design, arrivals), "register": _to_register(design, arrivals)}
        found |= {f"{start}_to_{end}": path for end, path in ends.items() if path is not None}
        if start == "register":
            by_part = _by_part(design, arrivals)
    return WholeTiming({kind: found[kind] for kind in PATH_KINDS if kind in found}, by_part)


def _strongest_buffer(technology: Technology) -> Cell:
    buffers = [
        cell
        for cell in technology.cells.values()
        if len(cell.inputs) == 1
        and cell.state is None
        and cell.max_load
        and [function.strip("()") for function in cell.outputs.values()] == list(cell.inputs)
    ]
    if not buffers:
        raise SynthesisError(f"{technology.name} has no buffer with a greatest load")
    return max(buffers, key=lambda cell: (cell.max_load or 0.0, cell.name))


def _allowed(design: Expanded, technology: Technology) -> Floats:
    """The greatest load of each net; infinite for clock and reset, which are ideal."""
    allowed = design.strength.copy()
    driver = technology.cells[technology.drive_cell].max_load or np.inf
    for port, nets in design.inputs.items():
        allowed[nets] = np.inf if port in IDEAL_INPUTS else driver
    allowed[design.pin_net[design.pin_is_clock]] = np.inf
    allowed[CONSTANT] = np.inf
    return allowed


def _loads(design: Expanded, technology: Technology) -> Floats:
    loads = np.bincount(design.pin_net, design.pin_load, design.nets).astype(np.float64)
    for nets in design.outputs.values():
        np.add.at(loads, nets, technology.output_load)
    return loads


def _groups(weights: list[float], limit: float) -> Iterator[list[int]]:
    """Neighbours together, as many as a buffer may drive."""
    group: list[int] = []
    total = 0.0
    for k, weight in enumerate(weights):
        if group and total + weight > limit:
            yield group
            group, total = [], 0.0
        group.append(k)
        total += weight
    yield group


def _network(design: Expanded, technology: Technology) -> Network:
    for arc in design.kinds:
        for surface in (arc.rise.delay, arc.rise.slew, arc.fall.delay, arc.fall.slew):
            if not isinstance(surface, Plane):
                raise SynthesisError("whole accelerators are timed with the compact tables only")
    through, launch, gates = (
        Arcs(design.pin_net[pin], net, kind, np.zeros(0, dtype=np.int64))
        for pin, net, kind in (design.through, design.launch, design.gates)
    )
    return Network(
        name=design.name,
        loads=_loads(design, technology),
        kinds=design.kinds,
        cells=design.kind_cells,
        through=through,
        launch=launch,
        gates=gates,
        net_name=design.net_name,
        loop_name=design.net_name,
    )


def _to_output(design: Expanded, arrivals: Arrivals) -> TimingPath | None:
    ends = [
        (arrivals.time[edge, net], f"{port}[{k}]" if len(nets) > 1 else port, int(net), edge)
        for port, nets in design.outputs.items()
        for k, net in enumerate(nets)
        for edge in (RISE, FALL)
    ]
    if not ends:
        return None
    time, name, net, edge = max(ends)
    return None if time == -np.inf else arrivals.path(net, edge, name, 0.0, design.net_name)


def _to_register(design: Expanded, arrivals: Arrivals) -> TimingPath | None:
    ends = design.pin_net[design.end_pin]
    if not len(ends):
        return None
    late = arrivals.time[:, ends] + design.setup
    edge, k = divmod(int(np.argmax(late)), len(ends))
    if late[edge, k] == -np.inf:
        return None
    setup = float(design.setup[k])
    return arrivals.path(int(ends[k]), edge, design.end_name(k), setup, design.net_name)


def _by_part(design: Expanded, arrivals: Arrivals) -> dict[str, float]:
    """The latest arrival at the ends in each module directly inside the whole."""
    late = (arrivals.time[:, design.pin_net[design.end_pin]] + design.setup).max(axis=0)
    found: dict[str, float] = {}
    for place in design.places:
        part = place.path.partition(".")[0]
        ends = late[place.end : place.end + len(place.part.ends)]
        latest = float(ends.max(initial=-np.inf))
        if latest > found.get(part, -np.inf):
            found[part] = latest
    return found
