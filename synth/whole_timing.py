"""Static timing of a whole accelerator: the clock that it holds, from its mapped netlist.

The rules are those of :mod:`tilewright.synth.timing`: both edges apart, the latest arrival and the
slowest slew go on, loads are pins without wires, an ideal clock. Every module is mapped by itself,
for the least area, so nothing is optimised across modules; and since a module is mapped without
knowing what it will drive, nets whose load is beyond what the library allows their driver get a
tree of the library's strongest buffer, as any flow would insert. Clock and reset stay ideal.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np

from tilewright.synth.expand import CONSTANT, Arcs, Expanded
from tilewright.synth.technology import Arc, Cell, Edge, Plane, Technology
from tilewright.synth.timing import IDEAL_INPUTS, PATH_KINDS, Step, TimingPath
from tilewright.synth.yosys import SynthesisError

__all__ = ["Buffers", "WholeTiming", "insert_buffers", "time_whole"]

# The part of its greatest load that a buffer of a tree gets: the more, the slower each, the fewer.
FILL = 0.25

_Ints = np.ndarray[Any, np.dtype[np.int64]]
_Floats = np.ndarray[Any, np.dtype[np.float64]]
_EDGES = ("rise", "fall")
# Cause and effect, as 0 for a rising and 1 for a falling edge, by the sense of an arc.
_CAUSES = {"+": ((0, 0), (1, 1)), "-": ((1, 0), (0, 1)), "*": ((0, 0), (1, 1), (1, 0), (0, 1))}


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
    old = design.through
    design.through = Arcs(
        np.concatenate([old.pin, first + np.arange(count)]),
        np.concatenate([old.net, np.array(new_target, dtype=np.int64)]),
        np.concatenate([old.kind, np.full(count, kind)]),
    )
    strengths = np.full(nets - design.nets, buffer.max_load or 0.0)
    design.strength = np.concatenate([design.strength, strengths])
    design.nets = nets
    design.cells += count
    design.logic_area += count * buffer.area
    return Buffers(len(heavy), count, count * buffer.area)


def time_whole(design: Expanded, technology: Technology) -> WholeTiming:
    """The longest paths of a design, in its arrays."""
    graph = _Graph(design, technology)
    found: dict[str, TimingPath] = {}
    by_part: dict[str, float] = {}
    for start, launch in (("input", graph.from_inputs), ("register", graph.from_registers)):
        launch()
        graph.propagate()
        for end, path in (("output", graph.to_output()), ("register", graph.to_register())):
            if path is not None:
                found[f"{start}_to_{end}"] = path
        if start == "register":
            by_part = graph.by_part()
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


def _allowed(design: Expanded, technology: Technology) -> _Floats:
    """The greatest load of each net; infinite for clock and reset, which are ideal."""
    allowed = design.strength.copy()
    driver = technology.cells[technology.drive_cell].max_load or np.inf
    for port, nets in design.inputs.items():
        allowed[nets] = np.inf if port in IDEAL_INPUTS else driver
    allowed[design.pin_net[design.pin_is_clock]] = np.inf
    allowed[CONSTANT] = np.inf
    return allowed


def _loads(design: Expanded, technology: Technology) -> _Floats:
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


class _Graph:
    """Arrivals and slews of both edges on every net."""

    def __init__(self, design: Expanded, technology: Technology):
        self.design, self.technology = design, technology
        self.loads = _loads(design, technology)
        self.delay, self.slope = _planes(design.kinds)
        self.sense = np.array(["+-*".index(arc.sense) for arc in design.kinds])
        self.source = design.pin_net[design.through.pin]
        self.levels = list(self._levels())

    def _levels(self) -> Iterator[_Ints]:
        """The arcs, those of a level after all that lead to their sources."""
        target, nets = self.design.through.net, self.design.nets
        by_source = np.argsort(self.source, kind="stable")
        starts = np.searchsorted(self.source[by_source], np.arange(nets + 1))
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
            net = int(np.flatnonzero(waiting > 0)[0])
            name = self.design.net_name(net)
            raise SynthesisError(f"{self.design.name}: combinational loop through {name}")

    def _reset(self) -> None:
        self.time = np.full((2, self.design.nets), -np.inf)
        self.slew = np.zeros((2, self.design.nets))

    def from_inputs(self) -> None:
        self._reset()
        driver = self.technology.cells[self.technology.drive_cell].arcs[0]
        for port, nets in self.design.inputs.items():
            for edge, shape in enumerate((driver.rise, driver.fall)):
                if port in IDEAL_INPUTS:
                    self.time[edge, nets], self.slew[edge, nets] = 0.0, self.technology.clock_slew
                    continue
                delay, slew = _plane(shape)
                self.time[edge, nets] = delay.per_load * self.loads[nets]
                self.slew[edge, nets] = slew.base + slew.per_load * self.loads[nets]

    def from_registers(self) -> None:
        self._reset()
        arcs, loads = self.design.launch, self.loads
        clock_slew = np.full(self.design.nets, self.technology.clock_slew)
        gates = self.design.gates
        gated = np.zeros(self.design.nets)
        slew = self._at(self.slope, 0, gates.kind, loads[gates.net], self.technology.clock_slew)
        np.maximum.at(gated, gates.net, slew)
        clock_slew[gates.net] = gated[gates.net]
        at = clock_slew[self.design.pin_net[arcs.pin]]
        for edge in (0, 1):
            time = self._at(self.delay, edge, arcs.kind, loads[arcs.net], at)
            slew = self._at(self.slope, edge, arcs.kind, loads[arcs.net], at)
            self.time[edge, arcs.net] = time
            self.slew[edge, arcs.net] = slew
        self.time[:, CONSTANT] = -np.inf

    @staticmethod
    def _at(table: _Floats, edge: int, kind: _Ints, load: _Floats, slew: Any) -> _Floats:
        base, per_load, per_slew = table[edge, :, kind].T
        return base + per_load * load + per_slew * slew

    def propagate(self) -> None:
        target, kinds = self.design.through.net, self.design.through.kind
        for level in self.levels:
            sense = self.sense[kinds[level]]
            for number, symbol in enumerate("+-*"):
                arcs = level[sense == number]
                for cause, effect in _CAUSES[symbol] if len(arcs) else ():
                    live = arcs[self.time[cause, self.source[arcs]] > -np.inf]
                    time, slew = self._through(live, cause, effect)
                    np.maximum.at(self.time[effect], target[live], time)
                    np.maximum.at(self.slew[effect], target[live], slew)
            self.time[:, CONSTANT] = -np.inf

    def _through(self, arcs: _Ints, cause: int, effect: int) -> tuple[_Floats, _Floats]:
        source, kind = self.source[arcs], self.design.through.kind[arcs]
        load = self.loads[self.design.through.net[arcs]]
        slew = self.slew[cause, source]
        time = self.time[cause, source] + self._at(self.delay, effect, kind, load, slew)
        return time, self._at(self.slope, effect, kind, load, slew)

    def to_output(self) -> TimingPath | None:
        ends = [
            (self.time[edge, net], f"{port}[{k}]" if len(nets) > 1 else port, int(net), edge)
            for port, nets in self.design.outputs.items()
            for k, net in enumerate(nets)
            for edge in (0, 1)
        ]
        if not ends:
            return None
        time, name, net, edge = max(ends)
        return None if time == -np.inf else self._path(net, edge, name, 0.0)

    def to_register(self) -> TimingPath | None:
        ends = self.design.pin_net[self.design.end_pin]
        if not len(ends):
            return None
        late = self.time[:, ends] + self.design.setup
        edge, k = divmod(int(np.argmax(late)), len(ends))
        if late[edge, k] == -np.inf:
            return None
        net = int(ends[k])
        return self._path(net, edge, self.design.end_name(k), float(self.design.setup[k]))

    def by_part(self) -> dict[str, float]:
        """The latest arrival at the ends in each module directly inside the whole."""
        design = self.design
        late = (self.time[:, design.pin_net[design.end_pin]] + design.setup).max(axis=0)
        of_pin = np.full(len(design.pin_net), -np.inf)
        np.maximum.at(of_pin, design.end_pin, late)
        found: dict[str, float] = {}
        for path, first, last in design.pin_ranges:
            part = path.partition(".")[0]
            latest = float(of_pin[first:last].max(initial=-np.inf))
            if latest > found.get(part, -np.inf):
                found[part] = latest
        return found

    def _path(self, net: int, edge: int, end: str, setup: float) -> TimingPath:
        delay = float(self.time[edge, net]) + setup
        steps = []
        while True:
            kind, before = self._cause(net, edge)
            steps.append(self._step(net, edge, kind))
            if before is None:
                start = self.design.net_name(net)
                return TimingPath(delay, start, end, setup, tuple(reversed(steps)))
            net, edge = before

    def _cause(self, net: int, edge: int) -> tuple[int | None, tuple[int, int] | None]:
        """The kind of arc of the latest arrival, and the net and edge it came from."""
        through, launch = self.design.through, self.design.launch
        best: tuple[float, int, tuple[int, int]] | None = None
        for arc in np.flatnonzero(through.net == net):
            kind = int(through.kind[arc])
            for cause, effect in _CAUSES[self.design.kinds[kind].sense]:
                if effect == edge:
                    time = float(self._through(np.array([arc]), cause, edge)[0][0])
                    if time > (best[0] if best else -np.inf):
                        best = time, kind, (int(self.source[arc]), cause)
        if best is not None:
            return best[1:]
        starts = launch.kind[launch.net == net]
        return (int(starts[0]) if len(starts) else None), None

    def _step(self, net: int, edge: int, kind: int | None) -> Step:
        return Step(
            cell="" if kind is None else self.design.kind_cells[kind],
            net=self.design.net_name(net),
            edge=_EDGES[edge],
            arrival=float(self.time[edge, net]),
            slew=float(self.slew[edge, net]),
            load=float(self.loads[net]),
        )


def _planes(kinds: list[Arc]) -> tuple[_Floats, _Floats]:
    """Delay and slew of every kind: [edge, coefficient, kind]."""
    delay, slew = np.zeros((2, 3, len(kinds))), np.zeros((2, 3, len(kinds)))
    for k, arc in enumerate(kinds):
        for edge, shape in enumerate((arc.rise, arc.fall)):
            for table, plane in zip((delay, slew), _plane(shape), strict=True):
                table[edge, :, k] = plane.base, plane.per_load, plane.per_slew
    return delay, slew


def _plane(shape: Edge) -> tuple[Plane, Plane]:
    if not (isinstance(shape.delay, Plane) and isinstance(shape.slew, Plane)):
        raise SynthesisError("whole accelerators are timed with the compact tables only")
    return shape.delay, shape.slew
