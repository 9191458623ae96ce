"""Cycles of loads and stores, given the memory's latency; the same for every accelerator.

Every channel of the memory takes a request or a line in every cycle and offers its answer
``latency`` cycles later.
"""

from functools import lru_cache
from typing import Any

from tilewright.golden.params.machine import MachineMemory, MachineParams

__all__ = ["LATENCY", "Channel", "load_cycles", "store_cycles", "takes_beats"]

# Cycles from a line's request to its answer, wherever nothing else is asked for: 100 ns of HBM at
# the 285 MHz of Anda and the 300 MHz of Harmonia.
LATENCY = 30


def takes_beats(params: MachineParams, memory: MachineMemory, x: Any) -> bool:
    """Whether a load's lines are taken a beat at a time: its lines and rows begin at one."""
    rows = params.beat_rows(memory)
    if not rows or x["line"] % params.memory_channels or x["row"] % rows:
        return False
    return "stride" not in x.fields or x["stride"] == 1


@lru_cache(maxsize=1024)  # long programs repeat a few sizes
def load_cycles(
    params: MachineParams,
    memory: MachineMemory,
    rows: int,
    latency: int,
    *,
    beats: bool = True,
    first: int = 0,
) -> int:
    """Cycles from the one in which the port takes a load to the first in which it is idle.

    ``beats`` (of a memory that takes them) is what :func:`takes_beats` says, ``first`` the channel
    of the first line.
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
    """When the lines of a channel are asked for, come, leave the queue's memory, are taken.

    A place in the queue is reserved ``lead`` cycles before its line is asked for.
    """

    def __init__(self, outstanding: int, latency: int, lead: int = 0):
        self.outstanding, self.latency, self.lead = outstanding, latency, lead
        self.asked = 0
        self.left: list[int] = []  # the cycle in which each line leaves the queue's memory
        self.moved = self.taken = 0  # of the last line: to the register of the output, from there

    def offer(self, earliest: int = 0) -> int:
        """The first cycle in which the next line, asked for at ``earliest`` or later, is here."""
        self.asked = max(self.asked + 1, earliest)
        number = len(self.left)
        if number >= self.outstanding:
            free = self.left[number - self.outstanding] + 2
            self.asked = max(self.asked, free + self.lead)
        here = self.asked + self.latency + 1
        left = max(here, self.moved, self.left[-1] + 1) if self.left else here
        self.left.append(left)
        self.moved = max(left + 1, self.taken)
        return self.moved + 1

    def take(self, cycle: int) -> None:
        """Take the line that is on offer."""
        self.taken = cycle


def store_cycles(params: MachineParams, memory: MachineMemory, rows: int, latency: int) -> int:
    """Cycles from the one in which the port takes a store to the first in which it is idle."""
    lines = params.lines(memory, rows)
    narrow = params.row_bits(memory) < params.line_bits
    sent = rows + 2 if narrow else lines + 1  # the cycle of the last line
    if params.store_pause:
        sent += rows * params.store_pause - 1  # behind the last row there is none, but a register
    return sent + latency + 2  # acknowledged, and noticed
