"""When instructions are issued and when they end, for programs of all accelerators.

Instructions are issued in program order and run concurrently, each on its unit. An instruction
waits until its unit can take it and no other unit holds a region of a memory that it touches; a
load also waits for a store of the same lines, and vice versa. Once issued, it shares nothing, so
its duration does not depend on other instructions, but that of a load on the loads before it,
where several are under way (``MachineParams.loads``): they share the port.
"""

from collections import deque
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Any, NamedTuple

from tilewright.golden.machine.extent import Extent
from tilewright.golden.machine.instruction import BaseInstruction, works_on_scalars
from tilewright.golden.machine.loops import Fetch
from tilewright.golden.machine.machine import Outcome
from tilewright.golden.machine.moves import (
    Latency,
    Move,
    ReadPort,
    load_cycles,
    store_cycles,
    takes_beats,
    timing_of,
)
from tilewright.golden.machine.port import Flight, Port
from tilewright.golden.machine.stream import StreamClock
from tilewright.golden.params.machine import REGIONS, Kind, MachineMemory, MachineParams, UnitOfWork
from tilewright.golden.params.vector import Operation

_NO_LINES = range(0)
_LOAD, _STORE = int(UnitOfWork.LOAD), int(UnitOfWork.STORE)  # asked for with every instruction


class Work(NamedTuple):
    """An instruction on its unit, which is busy after ``begin`` and before ``end``."""

    unit: UnitOfWork
    begin: int  # the cycle in which it is issued
    end: int  # the first cycle in which it is over
    number: int  # of the instruction in the program
    instruction: Any


class Task(NamedTuple):
    """The use that an instruction makes of its unit."""

    unit: UnitOfWork
    cycles: int  # from the one in which it is issued to the first in which it is over, alone
    regions: int  # that it touches: a bit each
    lines: range = _NO_LINES  # of external memory
    move: Move | None = None  # of a load, and at DRAM of a store
    ahead: int = 0  # of its cycles, about as many are over before those of the next load begin

    @classmethod
    def of(
        cls,
        params: MachineParams,
        unit: UnitOfWork,
        cycles: int,
        regions: int,
        lines: range = _NO_LINES,
        *load: Any,
    ) -> "Task":
        """A task of ``cycles`` from the unit's start on."""
        return cls(unit, params.start_cycles + cycles, regions, lines, *load)


@dataclass
class Clock:
    """Advances from instruction to instruction."""

    now: int = 0  # the cycle in which the next instruction is fetched
    control: int = 0  # cycles spent on fetching, decoding, measuring and checking
    control_cycles: int = 0  # of an instruction
    stream: StreamClock | None = None  # of instructions from external memory
    port: ReadPort | None = None  # where several loads are under way
    dram: Port | None = None  # in place of it
    moves: dict[int, Flight] = field(default_factory=dict)  # there, whose ends are not accounted
    free: list[int] = field(default_factory=lambda: [0] * len(UnitOfWork))  # to take a task
    busy: list[int] = field(default_factory=lambda: [0] * len(UnitOfWork))  # cycles of each unit
    # For each unit end, regions and lines of tasks that may be under way; the last ends last.
    held: list[deque[tuple[int, int, range]]] = field(
        default_factory=lambda: [deque([(0, 0, _NO_LINES)], 1) for _ in UnitOfWork]
    )

    def follow(self, params: MachineParams, outcome: Outcome, latency: Latency) -> None:
        """Start the clock of an executed program."""
        timing = timing_of(latency)
        if timing.dram is not None:  # instructions have a port of their own
            self.dram, latency = Port(params, timing), timing.latency
        self.control_cycles = params.control_cycles
        self.stream = StreamClock(params, latency) if outcome.streamed else None
        if params.loads > 1:
            self.port = ReadPort(params, latency) if self.dram is None else None
            self.held[_LOAD] = deque(self.held[_LOAD] * params.loads, params.loads)

    def reach(self, fetch: Fetch) -> None:
        """Advance to the fetch of an instruction; each iteration or end of a loop takes a cycle."""
        before = self.now
        self.now += fetch.turns
        if self.stream:
            self.stream.moved(self.now, fetch.base)
            self.now = max(self.now, self.stream.present(fetch.number))
        self.control += self.now - before

    def wait(self) -> None:
        """Advance over a wait or a halt."""
        if self.dram is not None:
            self._finish(_LOAD, _STORE)
        self._go_on(max(self._checked, *[held[-1][0] for held in self.held]))

    def skip(self) -> None:
        """Advance over an instruction that no unit runs."""
        self._go_on(self._checked)

    def issue(self, task: Task) -> tuple[int, int]:
        """Advance over an instruction that a unit runs: when it is issued, and when it is over.

        A move at DRAM is over when its flight will tell (``moves``).
        """
        unit, cycles, regions, lines, move, _ = task
        if self.dram is not None:
            for other in (_LOAD, _STORE):
                _, theirs, moved = self.held[other][-1]
                common = lines.start < moved.stop and moved.start < lines.stop
                if other == unit or common or theirs & regions:
                    self._finish(other)
        begin = max(self._checked, self.free[unit], self.held[unit][0][0])
        for other, held in enumerate(self.held):
            if other == unit:
                continue
            for end, theirs, moved in held:
                if end > begin and (
                    theirs & regions or (lines.start < moved.stop and moved.start < lines.stop)
                ):
                    begin = end
        if self.port is None or move is None:
            end = begin + cycles
        else:
            end = self.port.load(move, lines.start, begin)
            self.free[unit] = self.port.asked + 1
        after = self.held[unit][-1][0]
        if self.dram is not None and move is not None:
            self.moves[unit] = self.dram.begin(unit, begin, after, move, lines)
            end = begin  # until it is known
        else:
            self.busy[unit] += end - max(begin + 1, after)
        self.held[unit].append((end, regions, lines))
        self._go_on(begin)
        return begin, end

    def _finish(self, *units: int) -> None:
        """Follow the last moves of units to their ends."""
        assert self.dram is not None
        for unit in units:
            flight = self.moves.pop(unit, None)
            if flight is not None:
                self.dram.finish(flight)
                assert flight.end is not None
                self.busy[unit] += flight.busy
                self.held[unit][-1] = flight.end, *self.held[unit][-1][1:]
                if unit == _LOAD:
                    self.free[unit] = self.dram.asked + 1

    @property
    def _checked(self) -> int:
        """The cycle in which the instruction is checked."""
        return self.now + self.control_cycles - 1

    def _go_on(self, begin: int) -> None:
        self.control += self.control_cycles
        self.now = begin + 1


def schedule(
    params: MachineParams,
    outcome: Outcome,
    latency: Latency,
    task_of: Callable[[Any, Any], Task | None],
) -> tuple[Clock, list[Work]]:
    """The work of all units, in the order of the program, and the clock at its end.

    ``task_of`` takes an instruction and its settings; None: no unit runs it.
    """
    clock, done = Clock(), list[Work]()
    flights: list[tuple[int, Flight]] = []  # whose ends are known later
    clock.follow(params, outcome, latency)
    number = 0
    opcodes: Any = [type(step.instruction.opcode) for step in outcome.trace[:1]]
    waits = [kind[name] for kind in opcodes for name in ("WAIT", "HALT")]
    for step in outcome.trace:
        x = step.instruction
        if step.fetch is not None:
            number = step.fetch.number
            clock.reach(step.fetch)
        if x.opcode in waits:
            clock.wait()
            continue
        task = task_of(x, step.settings)
        if task is None:
            clock.skip()
            continue
        begin, end = clock.issue(task)
        done.append(Work(task.unit, begin, end, number, x))
        if clock.dram is not None and task.move is not None:
            flights.append((len(done) - 1, clock.moves[task.unit]))
    for k, flight in flights:
        assert flight.end is not None  # halting waits for all units
        done[k] = done[k]._replace(end=flight.end)
    return clock, done


def regions_of(params: MachineParams, touched: Iterable[Extent]) -> int:
    """The regions that ranges of rows lie in, a bit each."""
    mask = 0
    for extent in touched:
        size, place = _division(params, extent.memory)
        first, last = extent.first // size, (extent.end - 1) // size
        mask |= ((2 << last) - (1 << first)) << place
    return mask


@lru_cache(maxsize=64)  # asked for with every instruction of a program
def _division(params: MachineParams, memory: MachineMemory) -> tuple[int, int]:
    """Rows of a region of the memory, and the bit of its first region."""
    return params.region_rows(memory), 2 * max(REGIONS) * int(memory.buffer)


def move_task(
    params: MachineParams, x: BaseInstruction, memory: MachineMemory, regions: int, latency: Latency
) -> Task:
    """The task of a load or store of rows of ``memory``."""
    lines = range(x["line"], x["line"] + params.lines(memory, x["rows"]))
    if x.opcode.name == "STORE":
        cycles = store_cycles(params, memory, x["rows"], latency)
        own = () if timing_of(latency).dram is None else (Move(memory, x["rows"]),)
        return Task.of(params, UnitOfWork.STORE, cycles, regions, lines, *own)
    move = Move(memory, x["rows"], takes_beats(params, memory, x))
    cycles = load_cycles(params, move, latency, x["line"] % params.memory_channels)
    ahead = load_cycles(params, move._replace(rows=1), latency) if params.loads > 1 else 0
    return Task.of(params, UnitOfWork.LOAD, cycles, regions, lines, move, ahead)


@lru_cache(maxsize=8)  # programs of a model have the same kinds of moves
def _moves(params: MachineParams, latency: Latency) -> dict[tuple[Any, ...], Task]:
    return {}


TaskOf = Callable[[Any, Any, Any, Any], Task | None]  # of parameters, instruction, settings


def program_counters(
    params: MachineParams,
    outcome: Outcome,
    latency: Latency,
    counter: Any,
    task: TaskOf,
    gemm: Callable[[Any, Any, Any], Any],
) -> dict[Any, int]:
    """Counters of a program that halted, by where the time goes.

    ``gemm`` gives the cycles of a gemm with its settings: a named tuple whose other fields are
    named like counters of waiting.
    """
    waited = {counter[name]: 0 for name in counter.__members__ if name.endswith("_WAITS")}
    move = _known_moves(params, latency, task)
    # A loop repeats the same instructions; the trace keeps them alive, so ids are unique.
    known: dict[tuple[int, Any], tuple[Task | None, dict[Any, int]]] = {}

    def waits(x: Any, settings: Any) -> dict[Any, int]:
        if x.opcode.name not in ("GEMM", "SHARED_GEMM"):
            return {}
        found = gemm(params, settings, x)._asdict()
        return {counter[name.upper()]: n for name, n in found.items() if name != "cycles"}

    def task_of(x: Any, settings: Any) -> Task | None:
        if "line" in x.fields:
            return move(x, settings)
        key = id(x), settings
        if key not in known:
            known[key] = task(params, x, settings, latency), waits(x, settings)
        own, times = known[key]
        for name, cycles in times.items():
            waited[name] += cycles
        return own

    clock, _ = schedule(params, outcome, latency, task_of)
    busy = dict(zip(_BUSY, clock.busy, strict=True))
    return {
        counter.CYCLES: clock.now,
        counter.CONTROL: clock.control,
        **waited,
        **{counter[name]: n for name, n in busy.items() if name in counter.__members__},
    }


_BUSY = ("LOAD", "STORE", "GEMM", "VECTOR", "CONVERT")  # counters in the order of the units


def _known_moves(
    params: MachineParams, latency: Latency, task_of: TaskOf
) -> Callable[[Any, Any], Task]:
    """Tasks of loads and stores, computed once for those that differ in their lines alone.

    The lines matter only by how they spread over the channels.
    """
    known, channels = _moves(params, latency), params.memory_channels

    def task(x: Any, settings: Any) -> Task:
        fields = x.fields
        line = fields["line"]
        where = (fields["memory"], fields["row"], fields["rows"], fields.get("stride", 1))
        key = (x.opcode, where, line % channels)
        if key not in known:
            asked = task_of(params, x, settings, latency)
            assert asked is not None
            known[key] = asked
        found = known[key]
        return found._replace(lines=range(line, line + len(found.lines)))

    return task


def vector_cycles(params: MachineParams, x: BaseInstruction, rows: int) -> int:
    """Cycles of a vector instruction on tensors of ``rows`` rows.

    A row a cycle, two cycles a row with two tensors, or the pace of the vector unit.
    """
    words = 1 if works_on_scalars(x) else rows
    takes_b = Operation(x["operation"]).takes_b
    tensors = (x["a_kind"] == Kind.TENSOR) + (takes_b and x["b_kind"] == Kind.TENSOR)
    first = max(1, tensors)
    apart = max(first, params.vector.beat_cycles)
    return first + (words - 1) * apart + params.vector.latency + 2
