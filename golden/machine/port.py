"""Loads and stores at DRAM, whose answers depend on each other.

Instructions are issued in order. What is in flight is therefore followed only as far as the next
one needs: up to the end of a unit that it waits for. No later instruction requests lines before.
"""

from collections import deque
from fractions import Fraction

from tilewright.golden.machine.dram import Dram, DramChannel
from tilewright.golden.machine.moves import LATENCY, Latency, Move, Timing, sent_cycle
from tilewright.golden.params.block import require
from tilewright.golden.params.machine import MachineParams, UnitOfWork

FLAT = "flat"  # the memory of fixed latency
_FOREVER = 1 << 62


def memory_timing(
    memory: str | None, latency: int | None, params: MachineParams, clock: float
) -> Latency:
    """Timing of a memory, by default ``flat``, at the port of an accelerator of ``clock`` Hz."""
    if memory in (None, FLAT):
        cycles = LATENCY if latency is None else latency
        require(cycles >= 1, f"latency must be at least 1, not {cycles}")
        return cycles
    dram, hertz = Dram.named(str(memory)), round(clock)
    require(latency is None, f"memory {memory} has latencies of its own; leave the latency out")
    first = DramChannel(dram, params.line_bytes, hertz).read(0, 0)
    interval = Fraction(params.line_bytes * hertz / dram.bytes_per_second).limit_denominator(1000)
    return Timing(first, max(Fraction(1), interval), dram, hertz)


def dram_channels(params: MachineParams, timing: Timing) -> list[DramChannel]:
    """The channels of DRAM at an accelerator's port as a program finds them; none: no DRAM."""
    if timing.dram is None:
        return []
    one = timing.dram, params.line_bytes, timing.clock
    return [DramChannel(*one) for _ in range(params.memory_channels)]


class Flight:
    """Work of a unit, over from ``end`` on, once that is known; ``after`` the work before it."""

    def __init__(self, begin: int, after: int = 0, end: int | None = None):
        self.begin, self.after, self.end = begin, after, end

    @property
    def busy(self) -> int:
        """Cycles in which its unit is busy with it alone."""
        assert self.end is not None
        return self.end - max(self.begin + 1, self.after)


class _Queue:
    """Lines of a channel that are requested, answered and not yet taken."""

    def __init__(self, outstanding: int):
        self.asked = self.moved = self.taken = 0
        self.here: deque[int] = deque()  # when requested lines are in the queue
        self.left: deque[int] = deque(maxlen=outstanding)  # when lines left the queue's memory

    def next_request(self, earliest: int) -> int | None:
        """The cycle of the next request; None: it is not known when a place is free."""
        asked, most = max(self.asked + 1, earliest), self.left.maxlen
        assert most is not None
        free = len(self.here) + len(self.left) - most  # the line whose place it takes
        if free < 0:
            return asked
        return max(asked, self.left[free] + 2) if free < len(self.left) else None

    def offer(self) -> int:
        """The first cycle that offers the next line."""
        left = max(self.here.popleft(), self.moved)
        self.left.append(left)
        self.moved = max(left + 1, self.taken)
        return self.moved + 1


class _Load(Flight):
    """A load whose lines are requested and taken as far as they are followed."""

    def __init__(self, params: MachineParams, begin: int, after: int, move: Move, lines: range):
        super().__init__(begin, after)
        self.start, self.lines = begin + params.start_cycles, lines
        self.done = 0  # lines that are taken
        beats = move.beats and params.beat_rows(move.memory) > 0
        self.together = params.memory_channels if beats else 1
        self.each = 1 if beats else max(1, params.line_bits // params.row_bits(move.memory))
        # Cycles from the last line to the last row.
        self.rest = move.rows - (len(lines) - 1) * self.each if self.each > 1 else 1 - beats
        self.asked = [0] * params.memory_channels  # lines


class Port:
    """The channels of an accelerator's port, and the moves in flight: a load and a store.

    A load begins when that before it has requested all lines, and takes them after it.
    """

    def __init__(self, params: MachineParams, timing: Timing):
        self.params, self.channels = params, dram_channels(params, timing)
        self.queues = [_Queue(params.dma_lines) for _ in self.channels]
        # Lines to write, by channel: the cycle, and the line.
        self.writes: list[deque[tuple[int, int]]] = [deque() for _ in self.channels]
        self.load: _Load | None = None  # the last
        self.taken = self.sent = self.acknowledged = 0  # the last lines

    @property
    def asked(self) -> int:
        """The last cycle in which a line was asked for."""
        return max(queue.asked for queue in self.queues)

    def begin(self, unit: int, begin: int, after: int, move: Move, lines: range) -> Flight:
        """A move is issued; that of its unit before it, over at ``after``, has been finished."""
        if unit == UnitOfWork.LOAD:
            self.load = _Load(self.params, begin, after, move, lines)
            return self.load
        size, start = len(self.channels), begin + self.params.start_cycles
        for number, line in enumerate(lines):
            self.sent = start + sent_cycle(self.params, move.memory, move.rows, number)
            self.writes[line % size].append((self.sent, line // size))
        return Flight(begin, after)

    def finish(self, flight: Flight) -> None:
        """Follow a move to its end."""
        if isinstance(flight, _Load):
            self._follow(flight, _FOREVER)
            return
        if self.load is not None:
            self._follow(self.load, self.sent)
        for channel in range(len(self.channels)):
            self._write(channel, _FOREVER)
        flight.end = self.acknowledged + 2

    def _follow(self, load: _Load, until: int) -> None:
        """Request the lines of a load up to cycle ``until``, and take them."""
        size, lines, moved = len(self.channels), load.lines, load.end is None
        while moved:
            for c, queue in enumerate(self.queues):
                line = (lines.start + (c - lines.start) % size) // size + load.asked[c]
                while line * size + c < lines.stop:
                    at = queue.next_request(load.start + 1)
                    if at is None or at > until:
                        break
                    self._write(c, at)
                    queue.asked = at
                    queue.here.append(self.channels[c].read(at, line) + 1)
                    load.asked[c] += 1
                    line += 1
            moved = self._take(load) and load.end is None

    def _take(self, load: _Load) -> bool:
        """Take the lines that are here and in turn; whether there was one."""
        before, size, lines = load.done, len(self.queues), load.lines
        while load.done < len(lines):
            first = lines.start + load.done
            numbers = range(first, min(first + load.together, lines.stop))
            own = [self.queues[k % size] for k in numbers]
            if not all(queue.here for queue in own):
                break
            earliest = self.taken + (load.each if load.done else 1)
            self.taken = max(earliest, *[queue.offer() for queue in own])
            for queue in own:
                queue.taken = self.taken
            load.done += len(own)
        if load.done == len(lines):
            self.taken += load.rest
            load.end = self.taken + 1
        return load.done > before

    def _write(self, channel: int, until: int) -> None:
        """Lines that were written before cycle ``until``; a line is read before one is written."""
        waiting = self.writes[channel]
        while waiting and waiting[0][0] < until:
            acknowledged = self.channels[channel].write(*waiting.popleft())
            self.acknowledged = max(self.acknowledged, acknowledged)
