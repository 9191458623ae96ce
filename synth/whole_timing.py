"""Static timing of a whole accelerator: its least clock period, after mapping.

Every module is mapped by itself; nets with more load than the library allows their driver get a
tree of the library's strongest buffer. Other rules are those of :mod:`tilewright.synth.timing`.
"""

import json
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np

from tilewright.golden.params.resolve import resolve
from tilewright.synth import flow
from tilewright.synth.clock_gates import MIN_GROUP
from tilewright.synth.emit import to_rtlil
from tilewright.synth.expand import CONSTANT, Expanded, expand
from tilewright.synth.flow import Goal
from tilewright.synth.record import RECORDS, find_record, path_entry
from tilewright.synth.system import origin
from tilewright.synth.technology import Cell, Plane, Technology
from tilewright.synth.timing import (
    IDEAL_INPUTS,
    PATH_KINDS,
    Arcs,
    Arrivals,
    Floats,
    Network,
    TimingPath,
)
from tilewright.synth.yosys import SynthesisError

# Load of a buffer in a tree over its greatest: more makes the buffers slower but fewer.
FILL = 0.25


@dataclass(frozen=True)
class Buffers:
    """Result of :func:`insert_buffers`."""

    nets: int  # nets too heavy for their drivers
    cells: int
    area: float  # um2


@dataclass(frozen=True)
class WholeTiming:
    """The longest path of each kind, and the longest from register to register by its end."""

    paths: dict[str, TimingPath]
    by_part: dict[str, float]  # ps, by the top-level module of the path's end

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
    new_net: list[int] = []  # at the buffers' inputs
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
                break  # every pin alone is a buffer's largest load
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
    outputs = [
        (int(net), f"{port}[{k}]" if len(nets) > 1 else port)
        for port, nets in design.outputs.items()
        for k, net in enumerate(nets)
    ]
    output_nets = np.array([net for net, _ in outputs], dtype=np.int64)
    found: dict[str, TimingPath] = {}
    late = np.zeros(0)
    for start in ("input", "register"):
        arrivals.clear()
        if start == "input":
            arrivals.from_inputs(design.inputs)
        else:
            arrivals.from_registers()
        arrivals.settle()
        for end, nets, setup, name in (
            ("output", output_nets, np.zeros(len(outputs)), lambda k: outputs[k][1]),
            ("register", design.pin_net[design.end_pin], design.setup, design.end_name),
        ):
            late = arrivals.time[:, nets] + setup
            if late.max(initial=-np.inf) > -np.inf:
                edge, k = divmod(int(np.argmax(late)), len(nets))
                path = arrivals.path(int(nets[k]), edge, name(k), float(setup[k]), design.net_name)
                found[f"{start}_to_{end}"] = path
    by_part: dict[str, float] = {}  # of the last: from registers to registers
    latest = late.max(axis=0)
    for place in design.places:
        part = place.path.partition(".")[0]
        ends = latest[place.end : place.end + len(place.part.end_names)]
        by_part[part] = max(by_part.get(part, -np.inf), float(ends.max(initial=-np.inf)))
    return WholeTiming(
        paths={kind: found[kind] for kind in PATH_KINDS if kind in found},
        by_part={part: ps for part, ps in by_part.items() if ps > -np.inf},
    )


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


def _groups(weights: list[float], limit: float) -> Iterator[range]:
    """Adjacent pins, as many as a buffer may drive."""
    start, total = 0, 0.0
    for k, weight in enumerate(weights):
        if k > start and total + weight > limit:
            yield range(start, k)
            start, total = k, 0.0
        total += weight
    yield range(start, len(weights))


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


SYSTEM_CLOCK = "system_clock"  # the kind of record


@dataclass(frozen=True)
class SystemClock:
    """A whole accelerator in cells, and its longest paths."""

    goal: Goal
    cells: int  # buffers included
    logic: float  # um2, without memories
    buffers: Buffers
    timing: WholeTiming
    others: tuple["SystemClock", ...] = ()  # other goals, which missed the requested clock

    @property
    def delay(self) -> float:
        """Longest path in ps: the least clock period."""
        return self.timing.period


def netlist_clock(rtlil: str, top: str, technology: Technology, goal: Goal) -> SystemClock:
    """Map every module of ``rtlil`` by itself for ``goal`` and time the whole."""
    # The steps of ``flow`` but the last, which flattens: every module of an accelerator is read
    # once and expanded as numbers.
    found = flow._map(rtlil, top, technology, goal, True, MIN_GROUP, flow._WRITE)
    macros = flow._macro_cells(rtlil, technology)
    design = expand(json.loads(found[flow._JSON])["modules"], top, technology, macros)
    buffers = insert_buffers(design, technology)
    timing = time_whole(design, technology)
    return SystemClock(goal, design.cells, design.logic_area, buffers, timing)


def system_clock(rtlil: str, top: str, technology: Technology, period: float) -> SystemClock:
    """The first goal that fits ``period`` (ps), or else the fastest result of all."""
    tried = []
    for goal in Goal:
        tried.append(netlist_clock(rtlil, top, technology, goal))
        if tried[-1].delay <= period:
            break
    taken = min(tried, key=lambda result: (result.delay > period, result.delay))
    return replace(taken, others=tuple(result for result in tried if result is not taken))


def clock_record(spec: str, technology: Technology, period: float) -> dict[str, Any]:
    """Record of ``tilewright synth SPEC --system --clock CLOCK``."""
    params = resolve(spec)
    rtlil = to_rtlil(params, memory_macros=True)
    found = system_clock(rtlil, params.slug, technology, period)
    longest = max(found.timing.paths.values(), key=lambda path: path.delay)
    return {
        **origin(spec, technology, rtlil),
        "wanted_ps": round(period, 3),
        "goal": found.goal.value,
        "period_ps": round(found.delay, 3),
        "cells": found.cells,
        "logic_um2": round(found.logic, 3),
        "buffers": {
            "nets": found.buffers.nets,
            "cells": found.buffers.cells,
            "area_um2": round(found.buffers.area, 3),
        },
        "paths_ps": {kind: round(path.delay, 3) for kind, path in found.timing.paths.items()},
        "longest_path": path_entry(longest),
        "parts_ps": {part: round(ps, 3) for part, ps in sorted(found.timing.by_part.items())},
        "missed": {
            other.goal.value: {
                "period_ps": round(other.delay, 3),
                "cells": other.cells,
                "logic_um2": round(other.logic, 3),
            }
            for other in found.others
        },
    }


def load_clock(spec: str, technology: str, folder: Path = RECORDS) -> dict[str, Any] | None:
    """Return the committed record, or None."""
    return find_record(resolve(spec), technology, kind=SYSTEM_CLOCK, folder=folder)
