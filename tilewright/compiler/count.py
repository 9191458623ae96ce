"""Cycles, bytes and sums of programs from their instructions alone: nothing is computed.

The clock is that of :mod:`tilewright.golden.machine.clock`, which benches hold against the RTL, and
the programs are those that :mod:`tilewright.compiler.program` writes for a run, so that a count
equals the run's counters. Loops are followed as the accelerator follows them.

One rule extrapolates: of a step through many layers the first few are counted, and every further
layer takes as long as the last of these. A layer takes what is added between its first instruction
and that of the next. At DRAM all layers of a step are counted, unless they are large.
"""

import gc
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, fields, replace
from fractions import Fraction
from functools import lru_cache
from typing import Any

from tilewright.compiler.image import Lines
from tilewright.compiler.machine import Machine, SumKind
from tilewright.compiler.plan import Plan, step_sizes
from tilewright.compiler.program import Program, head_program, step_program
from tilewright.compiler.schedule import Item
from tilewright.compiler.sizes import Step
from tilewright.golden.machine.clock import Clock, Task, Work
from tilewright.golden.machine.loops import Fetch, Loops
from tilewright.golden.machine.machine import Outcome
from tilewright.golden.machine.moves import timing_of
from tilewright.golden.machine.port import Flight
from tilewright.golden.params.machine import LINE_FIELD, Error, UnitOfWork

FEW_LAYERS = 2  # that are counted: the first, and one as all others are
MOST_LINES = 1 << 20  # of a step at DRAM, where no two layers meet the same refreshes: all count
PROGRAM_LINES = 1 << 16  # reserved for a program; how many there are changes no cycle
MOST_TOGETHER = 64  # sequences of a step

# Parts of a step, and the operations of each; all others are projections.
PARTS = {
    "projections": ("k", "v", "q", "output"),
    "attention": ("attention",),
    "feed-forward": ("feed_norm", "gate+up", "down", "leave"),
    "head": ("head",),
}
_PART_OF = {operation: part for part, operations in PARTS.items() for operation in operations}


@dataclass(frozen=True)
class ProgramTime:
    """Cycles of programs that run one after the other; those in which each unit works; traffic."""

    programs: int = 0
    cycles: int = 0
    control: int = 0  # that fetch, decode, measure or check
    load: int = 0
    store: int = 0
    gemm: int = 0
    vector: int = 0
    convert: int = 0  # 0 where conversions are the vector unit's
    lines_read: int = 0  # of external memory; instructions are not among them
    lines_written: int = 0
    sums: tuple[tuple[SumKind, int], ...] = ()  # kinds, and the groups that were summed in each

    def __add__(self, other: "ProgramTime") -> "ProgramTime":
        return self.plus(other, 1)

    def plus(self, other: "ProgramTime", times: int) -> "ProgramTime":
        """Return the time of these programs and of ``times`` runs of the others."""
        sums = dict(self.sums)
        for kind, count in other.sums:
            sums[kind] = sums.get(kind, 0) + times * count
        numbers = {n: getattr(self, n) + times * getattr(other, n) for n in _NUMBERS}
        return ProgramTime(
            **numbers, sums=tuple(sorted((kind, n) for kind, n in sums.items() if n))
        )

    def times(self, count: int) -> "ProgramTime":
        """Return the time of ``count`` runs of these programs."""
        return ProgramTime().plus(self, count)

    def scaled(self, share: Fraction | int) -> "ProgramTime":
        """Return a share of everything, in whole cycles."""
        numbers = {n: round(getattr(self, n) * share) for n in _NUMBERS}
        return ProgramTime(**numbers, sums=tuple((kind, round(n * share)) for kind, n in self.sums))

    @classmethod
    def of_data(cls, data: dict[str, Any]) -> "ProgramTime":
        """The inverse of ``vars``, after JSON."""
        return cls(**data | {"sums": tuple((tuple(kind), n) for kind, n in data["sums"])})


BUSY = ("load", "store", "gemm", "vector", "convert")  # fields by unit
_NUMBERS = tuple(field.name for field in fields(ProgramTime) if field.name != "sums")


class _Counted:
    """Sums over the instructions of one operation."""

    def __init__(self) -> None:
        self.cycles = self.control = 0
        self.lines = [0] * len(UnitOfWork)  # of external memory: read, and written
        self.busy = [0] * len(UnitOfWork)
        self.sums: dict[SumKind, int] = {}

    @property
    def time(self) -> ProgramTime:
        busy = {BUSY[unit]: cycles for unit, cycles in enumerate(self.busy)}
        return ProgramTime(
            cycles=self.cycles,
            control=self.control,
            lines_read=self.lines[UnitOfWork.LOAD],
            lines_written=self.lines[UnitOfWork.STORE],
            sums=tuple(sorted(self.sums.items())),
            **busy,
        )


def program_time(
    machine: Machine, program: Sequence[Any] | Program, latency: Any, *, streamed: bool = True
) -> ProgramTime:
    """Cycles of a program that halts; unless ``streamed``, it lies in the instruction memory."""
    found = operation_times(machine, program, latency, streamed=streamed)
    return replace(sum(found.values(), ProgramTime()), programs=1)


def timeline(
    machine: Machine, program: Sequence[Any] | Program, latency: Any, *, streamed: bool = True
) -> list[Work]:
    """The work of every unit in a program that halts, with its cycles, in program order."""
    work: list[Work] = []
    operation_times(machine, program, latency, streamed=streamed, listen=work.append)
    return work


def operation_times(
    machine: Machine,
    program: Sequence[Any] | Program,
    latency: Any,
    *,
    streamed: bool = True,
    listen: Callable[[Work], None] | None = None,
    layers: "list[dict[str, ProgramTime]] | None" = None,
) -> dict[str, ProgramTime]:
    """Cycles of a program by operation.

    Operations overlap; a cycle is that of the instruction that ends last of all issued by then.
    Times up to every layer, and up to the end of the last, are added to ``layers``.
    """
    if not isinstance(program, Program):
        program = Program(list(program), [""] * len(program), range(0), 1, True)
    instructions, names = program.instructions, program.operations
    marks = (
        {program.first_of_layer(k) for k in range(program.layers + 1)} if layers is not None else ()
    )
    found: dict[str, _Counted] = {}
    clock, frontier, operation = Clock(), 0, next((n for n in names if n), "")
    clock.follow(machine.params, Outcome(Error.NONE, 0, False, {}, streamed=streamed), latency)
    task_of = _tasks(machine, program, latency)
    settings, loops, fetch = machine.defaults, Loops(), Fetch(0, 0, 0)
    flights: deque[tuple[Any, ...]] = deque()  # at DRAM: what is not accounted yet, in order

    def account(end: int, busy: int, counted: _Counted, work: Work | None, unit: int) -> None:
        nonlocal frontier
        counted.busy[unit] += busy
        if end > frontier:
            counted.cycles += end - frontier
            frontier = end
        if listen is not None and work is not None:
            listen(work._replace(end=end))

    while True:
        number = fetch.number
        x = instructions[number]
        if number in marks:
            assert layers is not None
            layers.append({name: counted.time for name, counted in found.items()})
        operation = names[number] or operation
        counted = found.get(operation)
        if counted is None:
            counted = found[operation] = _Counted()
        before = clock.control
        clock.reach(fetch)
        task, sums, kind = task_of(x, settings, number, loops)
        if task is not None:
            unit, lines = task.unit, task.lines
            worked = clock.busy[unit]
            begin, end = clock.issue(task)
            work = Work(unit, begin, end, number, loops.effective(x)) if listen else None
            if clock.dram is None:
                account(end, clock.busy[unit] - worked, counted, work, unit)
            elif task.move:
                flights.append((clock.moves[unit], counted, work, unit))
            else:
                after = end - (clock.busy[unit] - worked)
                flights.append((Flight(begin, after, end), counted, work, unit))
            if lines:
                counted.lines[unit] += len(lines)
            elif sums is not None:
                counted.sums[sums[0]] = counted.sums.get(sums[0], 0) + sums[1]
        elif kind in ("WAIT", "HALT"):
            clock.wait()
        else:
            clock.skip()
        counted.control += clock.control - before
        while flights and flights[0][0].end is not None:
            flight, *rest = flights.popleft()
            account(flight.end, flight.busy, *rest)
        if kind == "HALT":
            break
        if kind == "LOOP":
            loops.enter(x, number)
        elif kind == "CONFIGURE":
            settings = machine.settings(x)
        fetch = loops.go_on(number + 1)
    found[operation].cycles += clock.now - frontier
    return {name: counted.time for name, counted in found.items()}


_NO_UNIT = ("CONFIGURE", "LOOP", "WAIT", "HALT")
_Known = tuple[Task | None, tuple[SumKind, int] | None, str]


def _tasks(machine: Machine, program: Program, latency: Any) -> Callable[..., _Known]:
    """Return a function for an instruction's task (None where no unit runs it), sums and opcode.

    Every layer executes an instruction with other lines: only their channels change its cycles.
    """
    known: dict[tuple, _Known] = {}
    channels, cost = machine.params.memory_channels, machine.tasks(latency)
    first, size = program.body.start, max(1, len(program.body))
    end = first + (1 if program.looped else program.layers) * len(program.body)

    def task_of(x: Any, settings: tuple, number: int, loops: Loops) -> _Known:
        if first <= number < end:
            number = first + (number - first) % size
        fields, line = x.fields, 0
        if "line" in fields:
            line = fields["line"]
            if fields["line_index"]:
                line = (line + loops.indices[fields["line_index"] - 1]) % (1 << LINE_FIELD)
        key = number, settings, line % channels
        found = known.get(key)
        if found is None:
            kind = x.opcode.name
            found = None, None, kind
            if kind not in _NO_UNIT:
                item = Item(loops.effective(x) if loops.levels else x, settings, "")
                found = cost(item), machine.sums(item), kind
            known[key] = found
        task = found[0]
        if task is None or not task.lines:
            return found
        moved = range(line, line + len(task.lines))
        return task._replace(lines=moved), None, found[2]

    return task_of


# Steps of models.


@contextmanager
def _no_collection() -> Iterator[None]:
    """Pause the cyclic garbage collector: it takes a fifth of the time and finds little."""
    was = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if was:
            gc.enable()


@_no_collection()
def step_time(
    plan: Plan, step: Step, latency: Any, few: int = FEW_LAYERS
) -> dict[str, ProgramTime]:
    """Cycles of a step through all layers by part; a ``few`` are counted."""
    machine, lines = plan.machine, _lines(plan)
    layers = plan.shape.num_hidden_layers
    program = step_program(lines, step, latency=latency, layers=min(layers, few))
    seen: list[dict[str, ProgramTime]] = []
    found = operation_times(machine, program, latency, layers=seen)
    further = layers - program.layers
    if further:
        before, after = seen[-2:]
        asked = sum(time.lines_read for time in after.values()) * layers // program.layers
        if timing_of(latency).dram is not None and asked <= MOST_LINES:
            return step_time(plan, step, latency, layers)
        for name, time in after.items():
            layer = time.plus(before.get(name, ProgramTime()), -1)
            found[name] = found[name].plus(layer, further)
    parts = {part: ProgramTime() for part in PARTS if part != "head"}
    for operation, time in found.items():
        part = _PART_OF.get(operation, "projections")
        parts[part] = parts[part] + time
    return parts | {"projections": replace(parts["projections"], programs=1)}


@lru_cache(maxsize=64)
def _lines(plan: Plan) -> Lines:
    """One object of a plan, so that its lowered code is cached."""
    return Lines(plan, PROGRAM_LINES)


def head_tiles(machine: Machine, step: Step) -> range:
    """Token tiles that the vocabulary head follows: all of a batch, the last of a prompt."""
    tiles = range(len(machine.tiles(step)))
    return tiles if step.kind == "batch" else tiles[-1:]


def head_time(plan: Plan, tiles: Iterable[int], latency: Any, *, few: int = 0) -> ProgramTime:
    """Cycles of the vocabulary head after some token tiles of a step."""
    programs = (head_program(_lines(plan), tile, latency=latency, few=few) for tile in tiles)
    times = (program_time(plan.machine, program, latency) for program in programs)
    return sum(times, ProgramTime())


def prompt_steps(plan: Plan, tokens: int) -> list[Step]:
    """The steps in which a sequence's prompt is fed."""
    return [Step.prompt(first, count) for first, count in step_sizes(plan, 0, tokens)]


def batch_steps(lengths: Sequence[int]) -> list[Step]:
    """The steps that decode the last token of sequences of these lengths."""
    groups = (lengths[k : k + MOST_TOGETHER] for k in range(0, len(lengths), MOST_TOGETHER))
    return [Step.batch({n: tokens - 1 for n, tokens in enumerate(group)}) for group in groups]
