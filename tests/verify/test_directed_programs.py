"""Programs of the benches of Anda and Harmonia have every instruction that has a size in both."""

import numpy as np
import pytest

from tilewright.golden.machine.instruction import works_on_scalars
from tilewright.golden.machine.stream import program_lines
from tilewright.golden.params.machine import Error
from tilewright.golden.params.resolve import resolve
from tilewright.golden.params.vector import Operation
from tilewright.verify.machine.accelerators import accelerator_of, bench_side


def sized_instructions(params):
    """Names of the instructions that have a size; others (halt, loops, ...) every program has."""
    memory = accelerator_of(params).memory
    names = [f"load {m.name.lower()}" for m in memory]
    names += [f"store {m.name.lower()}" for m in memory if m.stores]
    names += [operation.name.lower() for operation in params.vector.operations]
    return [*names, *bench_side(params).NAMES]


def size_of(params, x):
    """Name of an instruction, and whether it works on several rows or groups; None without size."""
    kind = x.opcode.name.lower()
    match kind:
        case "load" | "store":
            memory = accelerator_of(params).memory(x["memory"])
            return f"{kind} {memory.name.lower()}", x["rows"] > 1
        case "vector":
            if works_on_scalars(x):
                return None
            name = Operation(x["operation"]).name.lower()
            return name, x.fields.get("elements", 0) > params.group
    return bench_side(params).sized(params, x)


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
