"""Programs of the benches of Anda and Harmonia have every instruction that has a size in both."""

from itertools import product

import numpy as np
import pytest

from tilewright.golden.machine.instruction import works_on_scalars
from tilewright.golden.machine.stream import program_lines
from tilewright.golden.params.harmonia_machine import Conversion
from tilewright.golden.params.machine import Error
from tilewright.golden.params.resolve import resolve
from tilewright.verify.machine.accelerators import accelerator_of, bench_side

SIZES = ("rows", "groups", "inputs", "elements")
KINDS = ("memory", "operand", "conversion", "operation")  # fields that choose what is done


def sized_instructions(params, system):
    """Opcode, choice and whether several; others (halt, loops, ...) every program has."""
    for opcode, fields in system.machine.INSTRUCTION.FIELDS.items():
        names = {f.name for f in fields}
        own = opcode in getattr(params, "opcodes", [opcode])
        if names.isdisjoint(SIZES) or opcode.name == "TILED_GEMM" or not own:
            continue
        choices = {
            "memory": [m for m in system.memory if m.stores or opcode.name == "LOAD"],
            **{"operand": getattr(params, "operands", ()), "conversion": Conversion},
            "operation": params.vector.operations,
        }
        chosen = [choices[name] for name in KINDS if name in names]
        yield from product([opcode], *chosen, (False, True))


def size_of(params, x):
    """Opcode, choice, and whether it works on several rows or groups; None without size."""
    sizes = [name for name in SIZES if name in x.fields]
    if not sizes or (x.opcode.name == "VECTOR" and works_on_scalars(x)):
        return None
    most = 1 if sizes[0] in ("rows", "groups") else params.group
    kind = [x[name] for name in KINDS if name in x.fields]
    return x.opcode, *kind, x[sizes[0]] > most


@pytest.mark.parametrize("block", ["anda:small", "harmonia:small"])
def test_one_program_has_every_instruction_in_both_sizes(block):
    """It halts, and its result does not depend on timing."""
    params = resolve(block)
    system = accelerator_of(params)
    wanted = set(sized_instructions(params, system))
    for seed in range(3):
        program, memory = bench_side(params).directed_program(params, seed)
        whole = np.concatenate([memory, program_lines(params, program)])
        outcome = system.machine(params, whole).run_stream(len(memory) // params.line_bytes)
        assert outcome.error is Error.NONE
        assert system.first_hazard(params, program) is None
        assert {size_of(params, x) for x in program} - {None} == wanted
