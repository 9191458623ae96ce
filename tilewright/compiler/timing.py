"""Where the cycles of a run go: layer by layer, and as a timeline of all units."""

import json
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tilewright.base.files import write_atomic
from tilewright.compiler.count import timeline
from tilewright.compiler.host import ProgramRun, Runner
from tilewright.compiler.program import Program
from tilewright.golden.machine.clock import Work
from tilewright.golden.params.machine import UnitOfWork

_MICROSECONDS = 1e6


@dataclass(frozen=True)
class LayerTime:
    """Cycles of one decoder layer of a step, by operation: from the end of those before it."""

    layer: int
    cycles: int
    by_part: dict[str, int]


def work_by_layer(program: Program, work: Iterable[Work]) -> list[list[Work]]:
    """The work of each layer of a step."""
    found: list[list[Work]] = []
    size, before = len(program.body), -1
    for w in work:
        number = w.number - program.body.start
        if not 0 <= number < size * (1 if program.looped else program.layers):
            continue
        if number % size < before or not found:
            found.append([])
        before = number % size
        found[-1].append(w)
    return found


def layer_times(program: Program, work: Iterable[Work]) -> list[LayerTime]:
    """Cycles of every layer of a step, from its timeline ``work``."""
    layers, found = work_by_layer(program, work), []
    now = min((w.begin for w in layers[0]), default=0) if layers else 0
    for number, own in enumerate(layers):
        start, ends = now, dict[str, int]()
        for w in own:
            name = program.operations[w.number]
            ends[name] = max(ends.get(name, 0), w.end)
        parts = {}
        for name, end in sorted(ends.items(), key=lambda item: item[1]):
            parts[name] = max(0, end - now)
            now = max(now, end)
        found.append(LayerTime(number, now - start, parts))
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


class Timing:
    """Listens to a runner: layers of its last step, and a trace of all its programs."""

    def __init__(self, runner: Runner, clock: float, *, trace: bool = False):
        self.runner, self._clock, self._trace = runner, clock, trace
        self.events: list[dict[str, Any]] = [
            {
                "name": "thread_name",
                "ph": "M",
                "pid": 0,
                "tid": int(unit),
                "args": {"name": unit.name.lower()},
            }
            for unit in UnitOfWork
        ]
        self._cycles = 0
        self.last: tuple[ProgramRun, Program] | None = None
        runner.listen = self._hear

    def _hear(self, run: ProgramRun, program: Program) -> None:
        if run.kind != "head":
            self.last = run, program
        if self._trace:
            self.events += trace_events(self.work(program), self._cycles, self._clock)
        self._cycles += run.cycles

    def work(self, program: Program) -> list[Work]:
        return timeline(self.runner.machine, program, self.runner.latency)

    def write(self, path: Path) -> None:
        """Write the trace, in Chrome's format, which Perfetto reads too."""
        write_atomic(path, json.dumps({"traceEvents": self.events}) + "\n")

    @property
    def layers(self) -> list[LayerTime]:
        """Layers of the last step."""
        if self.last is None:
            return []
        return layer_times(self.last[1], self.work(self.last[1]))
