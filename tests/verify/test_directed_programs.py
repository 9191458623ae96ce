"""Programs of the benches of Anda and Harmonia have every instruction that has a size in both."""

import numpy as np
import pytest

from tilewright.golden.machine.stream import program_lines
from tilewright.golden.params.machine import Error
from tilewright.golden.params.resolve import resolve
from tilewright.verify.machine.accelerators import accelerator_of, bench_side
from tilewright.verify.machine.coverage import size_of, sized_instructions


@pytest.mark.parametrize("block", ["anda:small", "harmonia:small"])
def test_one_program_has_every_instruction_in_both_sizes(block):
    """It halts, and its result does not depend on timing."""
    params = resolve(block)
    system = accelerator_of(params)
    wanted = {(name, several) for name in sized_instructions(params) for several in (False, True)}
    for seed in range(3):
        program, memory = bench_side(params).directed_program(params, seed)
        whole = np.concatenate([memory, program_lines(params, program)])
        outcome = system.machine(params, whole).run_stream(len(memory) // params.line_bytes)
        assert outcome.error is Error.NONE
        assert system.first_hazard(params, program) is None
        assert {size_of(params, x) for x in program} - {None} == wanted
