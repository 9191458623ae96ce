"""What accelerators that run the programs of whole models have in common: nothing is done twice."""

from collections.abc import Callable
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
    """Programs lie in external memory, and none changes its own lines, so that none is copied.

    The first ``constant`` lines are those that nothing changes.
    """

    def __init__(self, params: Any, external: NDArray[np.uint8], constant: int):
        super().__init__(params, np.asarray(external))  # not as a memmap, whose slices cost
        self._constant = constant
        self._counted: dict[tuple[int, int], int] = {}  # lines of so many rows of a memory

    def _run(self, word_at: Callable[[int], int | Error], *, streamed: bool = False) -> Outcome:
        self._finished = 0  # instructions: a number is sooner counted than an entry of a table
        outcome = super()._run(word_at, streamed=streamed)
        outcome.counts[self.COUNTER.INSTRUCTIONS] = self._finished
        return outcome

    def _finish(self, x: Any) -> None:
        self._finished += 1
        self._note(x)

    def _lines(self, x: Any) -> slice | None:
        if self.bad_lines:
            return super()._lines(x)
        key = x["memory"], x["rows"]
        count = self._counted.get(key)
        if count is None:
            count = self._counted[key] = self.params.lines(*key)
        end = x["line"] + count
        return slice(x["line"], end) if end <= len(self.external) else None

    def run_stream(self, line: int) -> Outcome:
        each, code = self.params.line_instructions, self.external
        fetched: dict[int, int] = {}  # loops come to instructions again

        def word(number: int) -> int | Error:
            if number in fetched:
                return fetched[number]
            place, within = line + number // each, number % each * WORD_BYTES
            if place >= len(code) or place in self.bad_lines:
                return Error.BUS
            octets = code[place, within : within + WORD_BYTES].tobytes()
            fetched[number] = int.from_bytes(octets, "little")
            return fetched[number]

        with np.errstate(over="ignore", invalid="ignore"):
            return self._run(word, streamed=True)
