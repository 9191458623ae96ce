"""Programs as they are built, and the external memory they start with, for any accelerator."""

from typing import Any

import numpy as np
from numpy.typing import NDArray

from tilewright.compiler.machine import machine_of


class BaseBuilder:
    """Collects a program and its external memory, line after line."""

    def __init__(self, params: Any):
        self.params, self.machine = params, machine_of(params)
        self.program: list[Any] = []  # of instructions
        self.line = 0  # the next one
        self._chunks: list[NDArray[np.uint8]] = []

    # External memory.

    @property
    def memory(self) -> NDArray[np.uint8]:
        """External memory as the program finds it."""
        return np.concatenate([np.zeros(0, np.uint8), *self._chunks])

    def reserve(self, lines: int) -> int:
        """Lines of zeros; the first one's number."""
        return self._place(np.zeros(lines * self.params.line_bytes, np.uint8))

    def place(self, memory: Any, rows: NDArray, unit: int = 0) -> int:
        """Rows, every ``unit`` of them from the start of a line; the first line's number."""
        starts = range(0, len(rows), unit or len(rows))
        pieces = [self.machine.to_bytes(memory, rows[k : k + (unit or len(rows))]) for k in starts]
        return self._place(np.concatenate(pieces))

    def _place(self, data: NDArray[np.uint8]) -> int:
        line = self.line
        self._chunks.append(data)
        self.line += len(data) // self.params.line_bytes
        return line

    # Instructions.

    def emit(self, opcode: Any, **fields: int) -> None:
        given = {name: int(value) for name, value in fields.items()}
        self.program.append(self.machine.instruction(opcode, given))

    def write(self, text: str) -> None:
        """Instructions as the assembler reads them."""
        self.program += self.machine.isa.assemble(text)

    def wait(self) -> None:
        self.write("wait")

    def halt(self) -> None:
        """The end of the program; one whose result depends on timing is refused."""
        self.write("halt")
        hazard = self.machine.first_hazard(self.program)
        if hazard:
            raise ValueError(str(hazard))
