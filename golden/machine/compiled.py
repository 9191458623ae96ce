"""What accelerators that run the programs of whole models have in common: nothing is done twice."""

from collections.abc import Iterable
from typing import Any, ClassVar, Self

import numpy as np
from numpy.typing import NDArray

from tilewright.golden.machine.instruction import BaseInstruction
from tilewright.golden.machine.machine import BaseMachine, Outcome
from tilewright.golden.machine.stream import WORD_BYTES
from tilewright.golden.params.machine import Error

__all__ = ["CompiledMachine", "DecodedOnce"]


class DecodedOnce(BaseInstruction):
    """Words are decoded once; beside an accelerator's own instruction, and before it."""

    KNOWN: ClassVar[dict[int, Any]]  # one for each accelerator

    @classmethod
    def decode(cls, word: int) -> Self | None:
        if word not in cls.KNOWN:
            cls.KNOWN[word] = super().decode(word)
        found: Self | None = cls.KNOWN[word]
        return found


class CompiledMachine(BaseMachine):
    """Programs lie in external memory, and none changes another: their words are read once."""

    def __init__(self, params: Any, external: NDArray[np.uint8], bad_lines: Iterable[int] = ()):
        super().__init__(params, external, bad_lines)
        self._programs: dict[int, dict[int, int]] = {}  # words by their numbers, by first line

    def run_stream(self, line: int) -> Outcome:
        each, code = self.params.line_instructions, self.external
        words = self._programs.setdefault(line, {})

        def word(number: int) -> int | Error:
            found = words.get(number)
            if found is not None and not self.bad_lines:
                return found
            place, within = line + number // each, number % each * WORD_BYTES
            if place >= len(code) or place in self.bad_lines:
                return Error.BUS
            data = code[place, within : within + WORD_BYTES]
            found = words[number] = int.from_bytes(data.tobytes(), "little")
            return found

        with np.errstate(over="ignore", invalid="ignore"):
            return self._run(word, streamed=True)
