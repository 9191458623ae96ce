"""Cycles of loads and stores, given the memory's timing; the same for every accelerator.

Every channel of the memory takes a request in every cycle and offers its line ``latency`` cycles
later. A slower memory has ``interval`` cycles between two lines of a channel, read or written.
"""

from fractions import Fraction
from functools import lru_cache
from math import ceil
from typing import Any, NamedTuple

from tilewright.golden.params.machine import MachineMemory, MachineParams

# Default cycles from a line's request to its answer: 100 ns of HBM at the 285 MHz of Anda and the
# 300 MHz of Harmonia.
LATENCY = 30


class Timing(NamedTuple):
    """The timing of a memory; an int in its place is the latency."""

    latency: int = LATENCY
    interval: Fraction = Fraction(1)  # cycles between two lines of a channel, at least 1


def _timing(memory: int | Timing) -> Timing:
    return memory if isinstance(memory, Timing) else Timing(memory)


def takes_beats(params: MachineParams, memory: MachineMemory, x: Any) -> bool:
    """Whether a load takes its lines a beat at a time: lines and rows begin at a beat."""
    rows = params.beat_rows(memory)
    if not rows or x["line"] % params.memory_channels or x["row"] % rows:
        return False
    return "stride" not in x.fields or x["stride"] == 1


@lru_cache(maxsize=1024)  # long programs repeat a few sizes
def load_cycles(
    params: MachineParams,
    memory: MachineMemory,
    rows: int,
    latency: int | Timing,
    *,
    beats: bool = True,
    first: int = 0,
) -> int:
    """Cycles from the one in which the port takes a load to the first in which it is idle.

    ``beats`` is the result of :func:`takes_beats`, ``first`` the channel of the first line.
    """
    lines = params.lines(memory, rows)
    if beats and params.beat_rows(memory):
        channel = Channel(params.dma_lines, latency)  # the longest one; no other is later
        taken = 0
        for _ in range(-(-lines // params.memory_channels)):
            taken = max(channel.offer(), taken + 1)
            channel.take(taken)
        return taken + 1
    channels = [Channel(params.dma_lines, latency) for _ in range(params.memory_channels)]
    each = max(1, params.line_bits // params.row_bits(memory))  # rows that a line holds
    taken = -each
    for k in range(lines):
        channel = channels[(first + k) % params.memory_channels]
        taken = max(channel.offer(), taken + each)
        channel.take(taken)
    return taken + (rows - (lines - 1) * each if each > 1 else 1) + 1


class Channel:
    """The timing of a channel's lines: requested, answered, read from the queue, taken.

    A place in the queue is reserved ``lead`` cycles before its line is requested.
    """

    def __init__(self, outstanding: int, latency: int | Timing, lead: int = 0):
        self.latency, self.interval = _timing(latency)
        self.outstanding, self.lead = outstanding, lead
        self.asked = 0
        self.due = Fraction(0)  # when the last line was there
        self.left: list[int] = []  # the cycle in which each line leaves the queue's memory
        self.moved = self.taken = 0  # of the last line: to the register of the output, from there

    def offer(self, earliest: int = 0) -> int:
        """The first cycle that offers the next line, requested at ``earliest`` or later."""
        self.asked = max(self.asked + 1, earliest)
        number = len(self.left)
        if number >= self.outstanding:
            free = self.left[number - self.outstanding] + 2
            self.asked = max(self.asked, free + self.lead)
        here = self.asked + self.latency + 1
        if self.interval > 1:
            self.due = max(self.due + self.interval, Fraction(here))
            here = ceil(self.due)
        left = max(here, self.moved, self.left[-1] + 1) if self.left else here
        self.left.append(left)
        self.moved = max(left + 1, self.taken)
        return self.moved + 1

    def take(self, cycle: int) -> None:
        """Take the line that is on offer."""
        self.taken = cycle


def store_cycles(
    params: MachineParams, memory: MachineMemory, rows: int, latency: int | Timing
) -> int:
    """Cycles from the one in which the port takes a store to the first in which it is idle."""
    lines = params.lines(memory, rows)
    narrow = params.row_bits(memory) < params.line_bits
    sent = rows + 2 if narrow else lines + 1  # the cycle of the last line
    if params.store_pause:
        sent += rows * params.store_pause - 1  # after the last row only the register
    answered, interval = _timing(latency)
    if interval > params.memory_channels:  # channels take lines in turn, each after its interval
        turn, channel = divmod(lines - 1, params.memory_channels)
        sent = max(sent, 2 + ceil(turn * interval) + channel)
    return sent + answered + 2  # acknowledged, and noticed
