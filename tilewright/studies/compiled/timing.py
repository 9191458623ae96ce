"""Where the cycles of a step go: layer by layer, and as a timeline of all units."""

import json
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tilewright.base.files import write_atomic
from tilewright.golden.machine.clock import Work
from tilewright.golden.params.machine import UnitOfWork
from tilewright.studies.compiled.runner import ProgramRun, Runner

__all__ = ["LayerTime", "Timing", "layer_times", "trace_events"]

_MICROSECONDS = 1e6


@dataclass(frozen=True)
class LayerTime:
    """One decoder layer of a step: cycles by its parts, from one's first work to the next's."""

    layer: int
    cycles: int
    by_part: dict[str, int]


def layer_times(runner: Runner, run: ProgramRun, work: Iterable[Work]) -> list[LayerTime]:
    """Cycles of every layer of a step, of which ``work`` is the timeline."""
    parts = runner.system.layer_parts(runner.plan, runner.lines, run.first, run.tokens)
    period = parts.pop("period", 0)  # of layers that no loop repeats
    names = [name for name in parts if name != "end"]
    starts: list[dict[str, int]] = []
    end, before = run.cycles, -1
    for w in work:
        if w.number >= parts["end"]:
            end = min(end, w.begin)
            break
        if w.number < parts[names[0]]:
            continue  # before the loop
        number = w.number
        if period:
            number = parts[names[0]] + (number - parts[names[0]]) % period
        if number < before or not starts:
            starts.append({})
        before = number
        name = next(n for n in reversed(names) if number >= parts[n])
        starts[-1].setdefault(name, w.begin)
    times = [layer[name] for layer in starts for name in names] + [end]
    found = []
    for k in range(len(starts)):
        first = k * len(names)
        spans = {name: times[first + n + 1] - times[first + n] for n, name in enumerate(names)}
        found.append(LayerTime(k, sum(spans.values()), spans))
    return found


def trace_events(work: Iterable[Work], start: int, clock: float) -> list[dict[str, Any]]:
    """Events of Chrome's trace format, a thread for each unit; ``start`` is in cycles."""
    scale = _MICROSECONDS / clock
    return [
        {
            "name": w.instruction.opcode.name.lower(),
            "ph": "X",
            "pid": 0,
            "tid": int(w.unit),
            "ts": round((start + w.begin) * scale, 4),
            "dur": round((w.end - w.begin) * scale, 4),
            "args": {"instruction": w.number},
        }
        for w in work
    ]


def _thread_names() -> list[dict[str, Any]]:
    """What the threads of a trace are called."""
    return [
        {
            "name": "thread_name",
            "ph": "M",
            "pid": 0,
            "tid": int(unit),
            "args": {"name": unit.name.lower()},
        }
        for unit in UnitOfWork
    ]


class Timing:
    """Listens to a runner: layers of its last step, and a trace of all its programs."""

    def __init__(self, runner: Runner, *, trace: bool = False):
        self.runner, self._trace = runner, trace
        self.events: list[dict[str, Any]] = _thread_names()
        self._cycles = 0
        self.last: tuple[ProgramRun, list[Work]] | None = None
        runner.listen = self._hear

    def _hear(self, run: ProgramRun) -> None:
        runner = self.runner
        assert runner.outcome is not None
        if self._trace or run.kind != "head":
            work = runner.system.timeline(runner.plan.params, runner.outcome, runner.latency)
            if run.kind != "head":
                self.last = run, work
            if self._trace:
                self.events += trace_events(work, self._cycles, runner.clock)
        self._cycles += run.cycles

    def write(self, path: Path) -> None:
        """Write the trace, in Chrome's format, which Perfetto reads too."""
        write_atomic(path, json.dumps({"traceEvents": self.events}) + "\n")

    @property
    def layers(self) -> list[LayerTime]:
        """Of the last step."""
        return [] if self.last is None else layer_times(self.runner, *self.last)
