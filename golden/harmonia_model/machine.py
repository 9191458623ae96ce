"""The golden accelerator for programs of a whole model: the same results, sooner.

What the executor computes bit by bit is computed here by numpy's own float16 and float32, whose
operations round once as the accelerator's do, by tables of all fp16 patterns, and on weights that
are unpacked when they are first used and kept. Nothing else differs: memories, counters and traces
are those of :class:`tilewright.golden.harmonia_machine.executor.Machine`.
"""

from typing import Any

import numpy as np
from numpy.typing import NDArray

from tilewright.golden.harmonia_machine.executor import Machine
from tilewright.golden.harmonia_model.lines import Lines
from tilewright.golden.harmonia_model.plan import Plan
from tilewright.golden.machine.machine import Outcome
from tilewright.golden.machine.stream import WORD_BYTES
from tilewright.golden.params.machine import Error

__all__ = ["ModelMachine"]


class ModelMachine(Machine):
    """The accelerator of a plan on a model's image."""

    def __init__(self, plan: Plan, lines: Lines, memory: NDArray[np.uint8]):
        super().__init__(plan.params, memory)
        self.plan, self.lines = plan, lines

    def run_stream(self, line: int) -> Outcome:
        """Execute the program at ``line``; no program changes its own lines, so none is copied."""
        each, code = self.params.line_instructions, self.external

        def word(number: int) -> int | Error:
            place, within = line + number // each, number % each * WORD_BYTES
            if place >= len(code) or place in self.bad_lines:
                return Error.BUS
            return int.from_bytes(code[place, within : within + WORD_BYTES].tobytes(), "little")

        return self._run(word, streamed=True)

    def _step(self, x: Any) -> Error:
        return super()._step(x)
