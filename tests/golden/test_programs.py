"""Words, text and limits, which programs of all accelerators share."""

import re
from random import Random

import numpy as np
import pytest

import tilewright.golden.params.anda_machine
import tilewright.golden.params.harmonia_machine
from tilewright.golden.params.machine import (
    INSTRUCTION_BITS,
    OPCODE_BITS,
    REGISTER_SPACE_BITS,
    Kind,
    Register,
)
from tilewright.golden.params.resolve import resolve
from tilewright.golden.params.vector import Operation
from tilewright.verify.machine.accelerators import accelerator_of

DECLARED = {
    "anda": tilewright.golden.params.anda_machine,
    "harmonia": tilewright.golden.params.harmonia_machine,
}

of_each = pytest.mark.parametrize("name", DECLARED)


def test_an_operation_that_the_unit_lacks_has_no_text():
    fields = tilewright.golden.params.anda_machine.INSTRUCTION_FIELDS
    system = accelerator_of(resolve("anda"))
    instruction = type(system.assemble("halt")[0])
    vector = next(opcode for opcode in fields if opcode.name == "VECTOR")
    x = instruction(vector, dict.fromkeys((f.name for f in fields[vector]), 0))
    x.fields["operation"] = int(Operation.POWERS)
    with pytest.raises(ValueError, match="the vector unit has no operation powers"):
        system.disassemble([x])


@of_each
def test_instructions_and_registers_fit(name):
    declared = DECLARED[name]
    assert set(declared.INSTRUCTION_FIELDS) == set(declared.Opcode) and 0 not in set(
        declared.Opcode
    )
    for fields in declared.INSTRUCTION_FIELDS.values():
        assert OPCODE_BITS + sum(f.bits for f in fields) <= INSTRUCTION_BITS
        assert len({f.name for f in fields}) == len(fields)
    assert max(r for r in Register if r is not Register.COUNTERS) < Register.COUNTERS
    assert Register.COUNTERS + 8 * len(declared.Counter) <= 1 << (REGISTER_SPACE_BITS - 1)


@of_each
def test_random_instructions_survive_the_text(name):
    declared, system = DECLARED[name], accelerator_of(resolve(name))
    instruction = type(system.assemble("halt")[0])
    # Fields that name something have a text only for what there is.
    operations = resolve(name).vector.operations
    choices = {"operation": operations, "a_kind": Kind, "b_kind": Kind, "memory": declared.Memory}
    choices |= {
        field: getattr(declared, field.title())
        for field in ("operand", "conversion")
        if hasattr(declared, field.title())
    }
    choose = Random(1)
    program = []
    for opcode, fields in declared.INSTRUCTION_FIELDS.items():
        for _ in range(40):
            values = {
                f.name: int(choose.choice(list(choices[f.name])))
                if f.name in choices
                else choose.randrange(1 << min(f.bits, 15))
                for f in fields
            }
            x = instruction(opcode, values)
            assert instruction.decode(x.encode()) == x
            # What a text does not show, b of an operation without one, comes back as it is usual.
            program.append(system.assemble(system.disassemble([x]))[0])
    assert system.assemble(system.disassemble(program)) == program


@of_each
def test_a_machine_refuses_what_cannot_be(name):
    params = resolve(f"{name}:small")
    machine, most = accelerator_of(params).machine, params.instructions
    lines = re.escape(f"external memory is whole lines of {params.line_bytes} bytes")
    with pytest.raises(ValueError, match=f"^{lines}$"):
        machine(params, np.zeros(params.line_bytes + 1, np.uint8))
    with pytest.raises(ValueError, match=f"^{most + 1} instructions do not fit {most}$"):
        machine(params, np.zeros(params.line_bytes, np.uint8)).run([1] * (most + 1))
