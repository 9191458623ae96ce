"""Cycles of loads and stores, given the memory's latency; the same for every accelerator.

The memory takes a request or a line in every cycle and offers its answer ``latency`` cycles later.
"""

from functools import lru_cache

from tilewright.golden.params.machine import MachineMemory, MachineParams


@lru_cache(maxsize=1024)  # long programs repeat a few sizes
def load_cycles(params: MachineParams, memory: MachineMemory, rows: int, latency: int) -> int:
    """Cycles from the one in which the port takes a load to the first in which it is idle."""
    lines = params.lines(memory, rows)
    each = max(1, params.line_bits // params.row_bits(memory))  # rows that a line holds
    asked: list[int] = []  # the cycle in which each line is asked for
    taken: list[int] = []  # and taken from the queue
    for k in range(lines):
        request = 1 if k == 0 else asked[-1] + 1
        if k >= params.dma_lines:
            request = max(request, taken[k - params.dma_lines] + 1)
        asked.append(request)
        arrives = request + latency + 1  # through the queue
        taken.append(arrives if k == 0 else max(arrives, taken[-1] + each))
    return taken[-1] + (rows - (lines - 1) * each if each > 1 else 1) + 1


def store_cycles(params: MachineParams, memory: MachineMemory, rows: int, latency: int) -> int:
    """Cycles from the one in which the port takes a store to the first in which it is idle."""
    lines = params.lines(memory, rows)
    narrow = params.row_bits(memory) < params.line_bits
    sent = 2 * rows + lines if narrow else rows + lines  # the cycle of the last line
    return sent + latency + 2  # acknowledged, and noticed
