"""Cycles of loads and stores, given the memory's timing; the same for every accelerator.

Every channel of the memory takes a request in every cycle and offers its line ``latency`` cycles
later. A slower memory has ``interval`` cycles between two lines of a channel, read or written.
"""

from collections import deque
from copy import copy
from fractions import Fraction
from functools import lru_cache
from math import ceil
from typing import Any, NamedTuple

from tilewright.golden.machine.dram import Dram
from tilewright.golden.params.machine import MachineMemory, MachineParams

# Default cycles from a line's request to its answer: 100 ns of HBM at the 285 MHz of Anda and the
# 300 MHz of Harmonia.
LATENCY = 30


class Timing(NamedTuple):
    """The timing of a memory; an int in its place is the latency."""

    latency: int = LATENCY
    interval: Fraction = Fraction(1)  # cycles between two lines of a channel, at least 1
    dram: Dram | None = None  # whose rows, banks and refresh decide; the others are its least then
    clock: int = 0  # of the accelerator, in Hz, where there is DRAM


Latency = int | Timing  # an int: of a memory that is as fast as the port


def timing_of(memory: Latency) -> Timing:
    return memory if isinstance(memory, Timing) else Timing(memory)


def takes_beats(params: MachineParams, memory: MachineMemory, x: Any) -> bool:
    """Whether a load takes its lines a beat at a time: lines and rows begin at a beat."""
    rows = params.beat_rows(memory)
    if not rows or x["line"] % params.memory_channels or x["row"] % rows:
        return False
    return "stride" not in x.fields or x["stride"] == 1


class Move(NamedTuple):
    """Rows that a load brings, and whether it takes whole beats."""

    memory: MachineMemory
    rows: int
    beats: bool = True


class ReadPort:
    """When loads take their lines, which pass the same channels in the order of the loads.

    A load asks for its lines once those before have asked for theirs, and takes them once those
    before have written their rows.
    """

    def __init__(self, params: MachineParams, latency: Latency):
        self.params, self.end = params, 0
        self.channels = [Channel(params.dma_lines, latency) for _ in range(params.memory_channels)]

    @property
    def asked(self) -> int:
        """The last cycle in which a line was asked for."""
        return max(channel.asked for channel in self.channels)

    def load(self, move: Move, line: int, begin: int) -> int:
        """The first cycle in which a load from ``line`` on, issued at ``begin``, is over."""
        p, (memory, rows, beats) = self.params, move
        lines, count = p.lines(memory, rows), p.memory_channels
        for channel in self.channels:
            channel.settle(begin)
        beats = beats and p.beat_rows(memory) > 0
        each = 1 if beats else max(1, p.line_bits // p.row_bits(memory))  # cycles of a line's rows
        taken = self.end - each
        if beats:  # channels in one state are one object, for speed
            known: dict[tuple, Channel] = {}
            self.channels = [known.setdefault(channel.state, channel) for channel in self.channels]
            together = list(known.values())
            for _ in range(lines // count):
                taken = _take(together, taken + 1, begin)
            lines %= count
        if lines:
            self.channels = [copy(channel) for channel in self.channels]
        if not beats:
            for k in range(line, line + lines):
                taken = _take([self.channels[k % count]], taken + each, begin)
            taken += rows - (lines - 1) * each if each > 1 else 1
        elif lines:
            taken = _take(self.channels[:lines], taken + 1, begin)
        self.end = taken + 1
        return self.end


def _take(channels: list["Channel"], earliest: int, begin: int) -> int:
    """The cycle in which a line of every channel is taken, of a load issued at ``begin``."""
    taken = max(earliest, *[channel.offer(begin + 1) for channel in channels])
    for channel in channels:
        channel.take(taken)
    return taken


@lru_cache(maxsize=1024)  # long programs repeat a few sizes
def load_cycles(params: MachineParams, move: Move, latency: Latency, line: int = 0) -> int:
    """Cycles from the one in which an idle port takes a load to the first in which it is idle."""
    return ReadPort(params, latency).load(move, line, 0)


class Channel:
    """The timing of a channel's lines: requested, answered, read from the queue, taken.

    A place in the queue is reserved ``lead`` cycles before its line is requested.
    """

    def __init__(self, outstanding: int, latency: Latency, lead: int = 0):
        self.latency, self.interval, *_ = timing_of(latency)
        self.outstanding, self.lead = outstanding, lead
        self.asked = 0
        self.due = Fraction(0)  # when the last line was there
        self.left: deque[int] = deque(maxlen=outstanding)  # when lines leave the queue's memory
        self.moved = self.taken = 0  # of the last line: to the register of the output, from there

    def offer(self, earliest: int = 0) -> int:
        """The first cycle that offers the next line, requested at ``earliest`` or later."""
        self.asked = max(self.asked + 1, earliest)
        if len(self.left) == self.outstanding:
            self.asked = max(self.asked, self.left[0] + 2 + self.lead)
        here = self.asked + self.latency + 1
        if self.interval > 1:
            self.due = max(self.due + self.interval, Fraction(here))
            here = ceil(self.due)
        left = max(here, self.moved)
        self.left.append(left)
        self.moved = max(left + 1, self.taken)
        return self.moved + 1

    def take(self, cycle: int) -> None:
        """Take the line that is on offer."""
        self.taken = cycle

    def settle(self, cycle: int) -> None:
        """Forget all before a cycle, after which the next line is asked for."""
        while self.left and self.left[0] < cycle:
            self.left.popleft()
        self.asked = max(self.asked, cycle)
        self.moved, self.taken = max(self.moved, cycle), max(self.taken, cycle)

    @property
    def state(self) -> tuple:
        """Channels in the same state go on alike."""
        return self.asked, self.due, self.moved, self.taken, *self.left

    def __copy__(self) -> "Channel":
        found = object.__new__(Channel)
        found.__dict__ |= self.__dict__ | {"left": self.left.copy()}
        return found


def store_cycles(params: MachineParams, memory: MachineMemory, rows: int, latency: Latency) -> int:
    """Cycles from the one in which the port takes a store to the first in which it is idle."""
    lines = params.lines(memory, rows)
    sent = sent_cycle(params, memory, rows, lines - 1)
    answered, interval, *_ = timing_of(latency)
    if interval > params.memory_channels:  # channels take lines in turn, each after its interval
        turn, channel = divmod(lines - 1, params.memory_channels)
        sent = max(sent, 2 + ceil(turn * interval) + channel)
    return sent + answered + 2  # acknowledged, and noticed


def sent_cycle(params: MachineParams, memory: MachineMemory, rows: int, number: int) -> int:
    """The cycle in which a line of a store of ``rows`` is sent, from the store's first on."""
    held, rest = divmod(params.line_bits, params.row_bits(memory))
    if held and (held > 1 or rest):
        read = min(rows, (number + 1) * held)
        sent = read + 2
    else:
        read = number // params.lines(memory, 1) + 1
        sent = number + 2
    if params.store_pause:
        sent += read * params.store_pause - 1  # after the last row only the register
    return sent
