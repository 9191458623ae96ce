"""Programs in the C++ host against golden: memory, endings and counters."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tilewright.base.errors import CheckError
from tilewright.golden.machine.instruction import BaseInstruction
from tilewright.golden.params.machine import Error
from tilewright.golden.params.resolve import resolve
from tilewright.verify.machine.accelerators import accelerator_of
from tilewright.verify.native.build import build_native
from tilewright.verify.native.run import NativeMemory, run_native


@dataclass(frozen=True)
class CheckedProgram:
    """A program that did what golden does."""

    counters: dict[str, int]
    golden_cycles: int  # with a memory whose channels bring lines in all cycles


def run_as_golden(
    block: str,
    programs: Sequence[int | Sequence[BaseInstruction]],
    memory: NDArray[np.uint8],
    answers: NativeMemory,
) -> list[CheckedProgram]:
    """Run ``programs`` as :func:`~tilewright.verify.native.run.run_native` does.

    Any difference from golden raises ``CheckError``.

    Golden does not know channels that pause or stall: then only counts are compared, and no program
    is faster than golden's.
    """
    params: Any = resolve(block)
    system, wanted = accelerator_of(params), memory.copy()
    machine = system.machine(params, wanted)
    timed = answers.rate == (1, 1) and not answers.stall
    found = []
    endings = run_native(build_native(block), programs, memory, answers).endings
    for number, (program, ending) in enumerate(zip(programs, endings, strict=True)):
        outcome = machine.run_stream(program) if isinstance(program, int) else machine.run(program)
        got, want = (ending.error, ending.instruction), (outcome.error, outcome.instruction)
        if got != want or outcome.error is not Error.NONE:
            raise CheckError(f"program {number} ended with {got}, golden with {want}")
        times = system.program_cycles(params, outcome, answers.latency)
        expected = outcome.counts | (times if timed else {})
        golden_cycles = times[system.counter["CYCLES"]]
        labels = {counter.name.lower(): value for counter, value in expected.items()}
        wrong = {k: (ending.counters[k], v) for k, v in labels.items() if ending.counters[k] != v}
        if wrong or ending.counters["cycles"] < golden_cycles:
            raise CheckError(
                f"program {number}: counters (got, expected) {wrong}, golden {golden_cycles} cycles"
            )
        found.append(CheckedProgram(ending.counters, golden_cycles))
    if not np.array_equal(memory, wanted):
        raise CheckError("memory is not golden's")
    return found
