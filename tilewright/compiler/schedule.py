"""The software pipeliner: straight-line code in, the order in which units overlap best out.

Lowerings write instructions in the plain order of the algorithm: load, multiply, convert, store.
Accelerators issue in program order, each instruction to its unit, and an instruction that waits
holds up those after it. So order decides how much of the work overlaps. The scheduler derives the
dependences (read after write, write after read, write after write) from the rows, lines and
registers that instructions touch, and issues, on the accelerator's own clock, whichever ready
instruction can begin first; of several, the one with the longest chain of dependents. Double
buffering follows from where the allocator puts things; nothing here knows about it.
"""

from bisect import bisect_left, insort
from collections import defaultdict, deque
from collections.abc import Callable, Iterable, Sequence
from typing import Any, NamedTuple, Protocol

from tilewright.golden.machine.clock import Task
from tilewright.golden.params.machine import UnitOfWork


class Access(NamedTuple):
    """Half-open range of a space: rows of a memory, lines, scalar registers, ..."""

    space: Any
    first: int
    end: int


class Item(NamedTuple):
    """An instruction that a unit runs, the settings that it needs, and the operation it serves."""

    instruction: Any
    needs: tuple  # a field of the settings each; None: any value will do
    operation: str


class Schedulable(Protocol):
    """The interface of a machine to the scheduler."""

    @property
    def control_cycles(self) -> int: ...

    @property
    def loads(self) -> int: ...

    def accesses(self, item: Item) -> tuple[list[Access], list[Access]]:
        """Ranges that an instruction reads, and those that it writes."""

    def tasks(self, latency: Any) -> Callable[[Item], Task]:
        """Return a function for unit, duration and regions of an instruction."""

    def configure(self, settings: tuple) -> Any:
        """The instruction that sets them."""


class Code:
    """Instructions in the order in which they are written; the scheduler may change it."""

    def __init__(self) -> None:
        self.items: list[Item] = []
        self.operation = ""

    def add(self, instruction: Any, needs: tuple = ()) -> None:
        self.items.append(Item(instruction, needs, self.operation))


class _Space:
    """The last writer of each part of a space, and its readers since."""

    def __init__(self) -> None:
        self.starts = [0]
        self.last: list[tuple[int, list[int]]] = [(-1, [])]  # writer, readers since

    def _cut(self, at: int) -> int:
        """Index of the segment that begins at ``at``."""
        starts = self.starts
        k = bisect_left(starts, at)
        if k == len(starts) or starts[k] != at:
            writer, readers = self.last[k - 1]
            starts.insert(k, at)
            self.last.insert(k, (writer, readers.copy()))
        return k

    def read(self, first: int, end: int, number: int, before: set[int]) -> None:
        begin = self._cut(first)
        for writer, readers in self.last[begin : self._cut(end)]:
            before.add(writer)
            readers.append(number)

    def write(self, first: int, end: int, number: int, before: set[int]) -> None:
        begin = self._cut(first)
        stop = self._cut(end)
        for writer, readers in self.last[begin:stop]:
            before.add(writer)
            before.update(readers)
        self.starts[begin:stop] = [first]
        self.last[begin:stop] = [(number, [])]


def dependences(machine: Schedulable, items: Sequence[Item]) -> list[set[int]]:
    """For every instruction, the earlier ones that it must follow."""
    spaces: dict[Any, _Space] = defaultdict(_Space)
    found = []
    for number, item in enumerate(items):
        before: set[int] = set()
        reads, writes = machine.accesses(item)
        for space, first, end in reads:
            spaces[space].read(first, end, number, before)
        for space, first, end in writes:
            spaces[space].write(first, end, number, before)
        before -= {-1, number}
        found.append(before)
    return found


def schedule(
    machine: Schedulable,
    items: Sequence[Item],
    latency: Any,
    before: Sequence[set[int]] | None = None,
    *,
    counts_itself: bool = True,
) -> list[int]:
    """Numbers of the instructions in the order in which they are issued.

    ``before`` are their dependences, if they are known: no latency changes them. An instruction is
    part of the chain that it begins, unless it is not to be counted: where there is little but
    loads and products, a long load of the next part would be issued before a short one that a
    product waits for.
    """
    if before is None:
        before = dependences(machine, items)
    tasks = list(map(machine.tasks(latency), items))
    after: list[list[int]] = [[] for _ in items]
    for number, earlier in enumerate(before):
        for other in earlier:
            after[other].append(number)
    chain, rest = [0] * len(items), [0] * len(items)  # cycles of dependents, with own ones or not
    for number in range(len(items) - 1, -1, -1):
        rest[number] = max((chain[other] for other in after[number]), default=0)
        chain[number] = tasks[number].cycles + rest[number]
    waits = [len(earlier) for earlier in before]
    longest = chain if counts_itself else rest
    ready = sorted((-longest[number], number) for number, count in enumerate(waits) if not count)
    issue, order = _Issue(machine.control_cycles, machine.loads), list[int]()
    while ready:
        number = issue.next_of(ready, items, tasks)
        order.append(number)
        for other in after[number]:
            waits[other] -= 1
            if not waits[other]:
                insort(ready, (-longest[other], other))
    return order


class _Issue:
    """The accelerator's issue logic, as far as one order is better than another."""

    def __init__(self, control_cycles: int, loads: int):
        self.control, self.now = control_cycles, 0
        self.free = [0] * len(UnitOfWork)  # to take an instruction
        self.held: list[deque[tuple[int, int]]] = [deque([(0, 0)], 1) for _ in UnitOfWork]
        self.held[UnitOfWork.LOAD] = deque([(0, 0)] * loads, loads)
        self.settings: tuple = ()

    def next_of(
        self, ready: list[tuple[int, int]], items: Sequence[Item], tasks: Sequence[Task]
    ) -> int:
        """Issue the first ready instruction of those that begin first; it is not ready any more."""
        now, starts = self.now + self.control - 1, dict[tuple, int]()
        busy = [(u, i, h) for u, own in enumerate(self.held) for i, h in own if i > now]
        first, best = -1, 0
        for place, (_, number) in enumerate(ready):
            needs = items[number].needs
            begin = starts.get(needs)
            if begin is None:
                begin = now if met(self.settings, needs) else now + self.control
                starts[needs] = begin
            own, _, regions, *_ = tasks[number]
            if self.free[own] > begin:
                begin = self.free[own]
            for unit, idle, held in busy:
                if idle > begin and held & regions and unit != own:
                    begin = idle
            if begin < first or first < 0:
                first, best = begin, place
                if begin == now:
                    break
        _, number = ready.pop(best)
        unit, cycles, regions, *_, ahead = tasks[number]
        under_way = self.held[unit]
        end = max(first + cycles, under_way[-1][0] + cycles - ahead)
        under_way.append((end, regions))
        self.free[unit] = max(end - ahead, under_way[0][0])
        self.settings = merged(self.settings, items[number].needs)
        self.now = first + 1
        return number


def met(settings: tuple, needs: tuple) -> bool:
    """Whether settings are those that an instruction needs."""
    if not needs or settings == needs:
        return True
    if not settings:
        return False
    return all(b is None or a == b for a, b in zip(settings, needs, strict=True))


def merged(settings: tuple, needs: tuple) -> tuple:
    """The settings with those that an instruction needs."""
    if not needs or not settings or settings == needs:
        return needs or settings
    return tuple([a if b is None else b for a, b in zip(settings, needs, strict=True)])


def written(
    machine: Schedulable, items: Iterable[Item], defaults: tuple
) -> tuple[list[Any], list[str]]:
    """Instructions with a CONFIGURE wherever settings change, and the operation each serves.

    ``defaults`` stand for settings that no instruction has needed yet.
    """
    settings: tuple = ()
    program, operations = [], []
    for item in items:
        if not met(settings, item.needs):
            needs = tuple(d if n is None else n for n, d in zip(item.needs, defaults, strict=True))
            settings = merged(settings, item.needs) if settings else needs
            program.append(machine.configure(settings))
            operations.append(item.operation)
        program.append(item.instruction)
        operations.append(item.operation)
    return program, operations
