"""Cycles of programs from their instructions alone: nothing is computed, no memory is needed.

The clock is that of ``tilewright.golden.machine.clock``, which benches hold against the RTL; what
an instruction needs of its unit is asked once for every kind of it. Loops are followed as the
accelerator follows them.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from copy import copy, deepcopy
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

from tilewright.golden.anda_machine import cycles as anda_cycles
from tilewright.golden.anda_machine.isa import Formats
from tilewright.golden.harmonia_machine import cycles as harmonia_cycles
from tilewright.golden.harmonia_machine.isa import Instruction, Settings, expand
from tilewright.golden.machine.clock import Clock, Task, Work, known_moves
from tilewright.golden.machine.instruction import BaseInstruction
from tilewright.golden.machine.loops import Fetch, Loops
from tilewright.golden.machine.machine import Outcome, Step
from tilewright.golden.params.anda_machine import AndaParams
from tilewright.golden.params.anda_machine import Counter as AndaCounter
from tilewright.golden.params.harmonia_machine import Counter as HarmoniaCounter
from tilewright.golden.params.harmonia_machine import HarmoniaParams
from tilewright.golden.params.machine import Error, UnitOfWork

__all__ = ["AnyParams", "ProgramTime", "Timer", "program_time", "trace"]

AnyParams = AndaParams | HarmoniaParams
Counts = Mapping[AndaCounter, int] | Mapping[HarmoniaCounter, int]


@dataclass(frozen=True)
class ProgramTime:
    """Cycles of programs that run one after the other, and of them those in which a unit works."""

    programs: int
    cycles: int
    control: int  # that fetch, decode, measure or check
    load: int
    store: int
    gemm: int
    vector: int
    convert: int  # 0 where conversions are the vector unit's

    @classmethod
    def of(cls, counters: Sequence[Counts]) -> "ProgramTime":
        """The sum over programs of what the accelerator's own counters say."""
        total: dict[str, int] = {}
        for counts in counters:
            for counter, value in counts.items():
                total[counter.name] = total.get(counter.name, 0) + value
        names = ("CYCLES", "CONTROL", "LOAD", "STORE", "GEMM", "VECTOR", "CONVERT")
        return cls(len(counters), *(total.get(name, 0) for name in names))

    def __add__(self, other: "ProgramTime") -> "ProgramTime":
        return self.plus(other, 1)

    def plus(self, other: "ProgramTime", times: int) -> "ProgramTime":
        """Return the time of these programs and of the others so many times."""
        return ProgramTime(*(a + times * b for a, b in zip(self._all, other._all, strict=True)))

    def times(self, count: int) -> "ProgramTime":
        """Return the time of these programs so many times."""
        return ProgramTime(*(count * value for value in self._all))

    @property
    def _all(self) -> tuple[int, ...]:
        units = (self.load, self.store, self.gemm, self.vector, self.convert)
        return (self.programs, self.cycles, self.control, *units)


def trace(params: AnyParams, program: Sequence[BaseInstruction]) -> Iterator[Step]:
    """The instructions of a program that halts, in the order in which they are executed."""
    settings: Any = Formats() if isinstance(params, AndaParams) else Settings()
    loops, fetch = Loops(), Fetch(0, 0, 0)
    while True:
        x = program[fetch.number]
        name = x.opcode.name
        if name == "LOOP":
            yield Step(x, settings, fetch)
            loops.enter(x, fetch.number)
            fetch = loops.go_on(fetch.number + 1)
            continue
        if name == "CONFIGURE":
            settings = _configured(x)
        if loops.levels:
            x = loops.effective(x)
        yield Step(x, settings, fetch)
        if name == "TILED_GEMM":
            assert isinstance(params, HarmoniaParams) and isinstance(x, Instruction)
            yield from (Step(part, settings) for part in expand(params, settings, x))
        if name == "HALT":
            return
        fetch = loops.go_on(fetch.number + 1)


def _configured(x: BaseInstruction) -> Any:
    """What an instruction sets for those behind it."""
    if isinstance(x, Instruction):
        return Settings.of(x)
    return Formats(x["source_mantissa"], x["result_mantissa"])


def program_time(
    params: AnyParams,
    program: Sequence[BaseInstruction],
    latency: int,
    *,
    streamed: bool = True,
    listen: Callable[[Work], None] | None = None,
) -> ProgramTime:
    """Cycles of a program that halts, which lies in external memory unless it is not ``streamed``.

    ``listen`` hears of the work of every unit, in the order of the program.
    """
    timer = Timer(params, latency, streamed=streamed)
    timer.follow(trace(params, program), listen)
    return timer.time


class Timer:
    """The clock of a program that comes piece by piece; a copy goes on from where it stands."""

    def __init__(self, params: AnyParams, latency: int, *, streamed: bool = True):
        self.clock, self.busy = Clock(), [0] * len(UnitOfWork)
        self.clock.follow(params, Outcome(Error.NONE, 0, False, {}, streamed=streamed), latency)
        self._task_of, self._next = _tasks(params, latency), 0
        self._settings: Any = Formats() if isinstance(params, AndaParams) else Settings()

    def copy(self) -> "Timer":
        """Return another one that has come as far."""
        other = copy(self)
        other.clock, other.busy = deepcopy(self.clock), list(self.busy)
        return other

    def run(self, instructions: Iterable[BaseInstruction]) -> None:
        """Go on with instructions among which there is no loop and none that has parts."""
        self.follow(self._straight(instructions))

    def _straight(self, instructions: Iterable[BaseInstruction]) -> Iterator[Step]:
        for number, x in enumerate(instructions, self._next):
            self._next = number + 1
            if x.opcode.name == "CONFIGURE":
                self._settings = _configured(x)
            yield Step(x, self._settings, Fetch(number, 0, number))

    def follow(self, steps: Iterable[Step], listen: Callable[[Work], None] | None = None) -> None:
        """Go on with instructions as they are executed."""
        clock, busy, task_of = self.clock, self.busy, self._task_of
        number = 0
        for step in steps:
            if step.fetch is not None:
                number = step.fetch.number
                clock.reach(step)
            x = step.instruction
            name = x.opcode.name
            if name in ("WAIT", "HALT"):
                clock.wait()
                continue
            task = task_of(x, step.settings)
            if task is None:
                clock.skip()
                continue
            begin = clock.issue(task)
            busy[task.unit] += task.cycles - 1
            if listen is not None:
                listen(Work(task.unit, begin, begin + task.cycles, number, x))

    @property
    def time(self) -> ProgramTime:
        """Cycles to where the clock stands."""
        load, store, gemm, vector, convert = self.busy  # in the order of the units
        clock = self.clock
        return ProgramTime(1, clock.now, clock.control, load, store, gemm, vector, convert)


@lru_cache(maxsize=8)  # programs of a model ask for the same kinds
def _tasks(params: AnyParams, latency: int) -> Callable[[Any, Any], Task | None]:
    """What an instruction needs; of moves that differ in their lines alone it is the same."""
    known: dict[Any, Task | None] = {}

    def ask(x: Any, settings: Any) -> Task | None:
        if isinstance(params, AndaParams):
            return anda_cycles.task(params, x, settings, latency)
        return harmonia_cycles.task(params, x, settings, latency)

    def task_of(x: Any, settings: Any) -> Task | None:
        fields = x.fields
        if "memory" not in fields:
            key = (x.opcode, settings, tuple(fields.items()))
            if key not in known:
                known[key] = ask(x, settings)
            return known[key]
        return move(x)

    move = known_moves(params, latency, lambda x: ask(x, None))
    return task_of
