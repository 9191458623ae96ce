"""The clock that a whole accelerator holds: mapped module by module, timed as one netlist.

The goals of :mod:`tilewright.synth.flow` are tried from the smallest on, as for a single block; the
first whose longest path fits the wanted clock is taken, otherwise the fastest. A record keeps what
the others that were tried came to.
"""

import json
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from tilewright.golden.params.resolve import resolve
from tilewright.synth import flow
from tilewright.synth.clock_gates import MIN_GROUP
from tilewright.synth.emit import to_rtlil
from tilewright.synth.expand import expand
from tilewright.synth.flow import Goal
from tilewright.synth.liberty import to_liberty
from tilewright.synth.record import (
    RECORDS,
    find_record,
    flow_sha256,
    sha256,
    tool_versions,
)
from tilewright.synth.technology import Technology
from tilewright.synth.timing import PATH_KINDS
from tilewright.synth.whole_timing import Buffers, WholeTiming, insert_buffers, time_whole

__all__ = [
    "SYSTEM_CLOCK",
    "SystemClock",
    "clock_record",
    "load_clock",
    "netlist_clock",
    "system_clock",
]

REGISTERS = "register_to_register"
SYSTEM_CLOCK = "system_clock"  # the kind of record


@dataclass(frozen=True)
class SystemClock:
    """A whole accelerator in cells, and its longest paths."""

    goal: Goal
    cells: int  # buffers included
    logic: float  # um2, without memories
    buffers: Buffers
    timing: WholeTiming
    others: tuple["SystemClock", ...] = ()  # of other goals, which missed the wanted clock

    @property
    def delay(self) -> float:
        """Of the longest path in ps: the least clock period."""
        return self.timing.period


def netlist_clock(rtlil: str, top: str, technology: Technology, goal: Goal) -> SystemClock:
    """Map every module of ``rtlil`` by itself for ``goal`` and time the whole."""
    # The steps of ``flow`` without its end, which flattens: of a whole accelerator every module
    # is read once and expanded as numbers.
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
    """What ``tilewright synth SPEC --system --clock CLOCK`` writes down."""
    params = resolve(spec)
    rtlil = to_rtlil(params, memory_macros=True)
    found = system_clock(rtlil, params.slug, technology, period)
    longest = max(found.timing.paths.values(), key=lambda path: path.delay)
    return {
        "spec": spec,
        "technology": technology.name,
        "system_rtlil_sha256": sha256(rtlil),
        "liberty_sha256": None if technology.liberty else sha256(to_liberty(technology)),
        "flow_sha256": None if technology.liberty else flow_sha256(technology.name),
        "tools": tool_versions(),
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
        "paths_ps": {
            kind: round(found.timing.paths[kind].delay, 3)
            for kind in PATH_KINDS
            if kind in found.timing.paths
        },
        "longest_path": {
            "start": longest.start,
            "end": longest.end,
            "cells": [step.cell for step in longest.steps if step.cell],
        },
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
