"""Programs as they are built, and the external memory they start with, for any accelerator."""

from abc import ABC, abstractmethod
from collections.abc import Sequence
from enum import IntEnum
from typing import Any, Generic, TypeVar

import numpy as np
from numpy.typing import NDArray

from tilewright.golden.machine.extent import Hazard
from tilewright.golden.machine.instruction import BaseInstruction

AnyInstruction = TypeVar("AnyInstruction", bound=BaseInstruction)


class BaseBuilder(ABC, Generic[AnyInstruction]):
    """Collects a program and its external memory, line after line."""

    INSTRUCTION: type[AnyInstruction]
    OPCODE: type[IntEnum]

    def __init__(self, params: Any):
        self.params = params
        self.program: list[AnyInstruction] = []
        self._chunks: list[NDArray[np.uint8]] = []
        self._line = 0

    @abstractmethod
    def first_hazard(self, program: Sequence[AnyInstruction]) -> Hazard | None:
        """What makes a program's result depend on timing."""

    @property
    def memory(self) -> NDArray[np.uint8]:
        """External memory as the program finds it."""
        return np.concatenate([np.zeros(0, np.uint8), *self._chunks])

    def _place(self, data: NDArray[np.uint8]) -> int:
        """Whole lines; the first one's number."""
        line = self._line
        self._chunks.append(data)
        self._line += len(data) // self.params.line_bytes
        return line

    def emit(self, opcode: Any, **fields: int) -> None:
        self.program.append(self.INSTRUCTION(opcode, fields))

    def wait(self) -> None:
        self.emit(self.OPCODE["WAIT"])

    def halt(self) -> None:
        """The end of the program; one whose result depends on timing is refused."""
        self.emit(self.OPCODE["HALT"])
        hazard = self.first_hazard(self.program)
        if hazard:
            raise ValueError(str(hazard))
