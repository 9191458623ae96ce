"""Programs in external memory: their lines, and when their instructions have been fetched."""

from collections import deque
from collections.abc import Iterable

import numpy as np
from numpy.typing import NDArray

from tilewright.golden.machine.instruction import BaseInstruction
from tilewright.golden.machine.moves import Channel, Latency
from tilewright.golden.params.machine import CODE_LINES, INSTRUCTION_BITS, MachineParams

WORD_BYTES = INSTRUCTION_BITS // 8


def program_lines(
    params: MachineParams, program: Iterable[BaseInstruction | int]
) -> NDArray[np.uint8]:
    """A program in external memory: whole lines, padded with zeros."""
    words = [x.encode() if isinstance(x, BaseInstruction) else x for x in program]
    data = b"".join(word.to_bytes(WORD_BYTES, "little") for word in words)
    return np.frombuffer(
        data.ljust(-(-len(data) // params.line_bytes) * params.line_bytes, b"\0"), np.uint8
    ).copy()


class StreamClock:
    """When the instructions of a stream are in the instruction memory.

    Lines are requested in order while the instruction memory has room for them and for the
    instructions that may still be needed, and are written to it an instruction a cycle.
    """

    def __init__(self, params: MachineParams, latency: Latency):
        self._each, self._ring = params.line_instructions, params.code_ring
        self._channel = Channel(CODE_LINES, latency, lead=1)
        self._lines = 0  # that are in the memory
        self._begun = self._taken = 0  # cycles in which the last one was first and last written
        self._bases: deque[tuple[int, int]] = deque()  # cycle, and the base from then on

    def moved(self, cycle: int, base: int) -> None:
        """Instructions before ``base`` are no longer needed from ``cycle`` on."""
        self._bases.append((cycle, base))

    def present(self, number: int) -> int:
        """The first cycle in which an instruction can be fetched from the instruction memory."""
        while self._lines * self._each <= number:
            needed = (self._lines + 1) * self._each - self._ring  # what the base must have reached
            while self._bases and needed > 0 and self._bases[0][1] < needed:
                self._bases.popleft()
            room = self._bases[0][0] if needed > 0 else 0
            self._begun = max(self._channel.offer(room + 1), self._taken + 1)
            self._taken = self._begun + self._each - 1
            self._channel.take(self._taken)
            self._lines += 1
        within = number - (self._lines - 1) * self._each
        return self._begun + within + 1 if within >= 0 else 0
