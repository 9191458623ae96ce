"""Harmonia's part of the benches of programs; ``tests.py`` has cocotb tests of its own."""

from tilewright.golden.params.harmonia_machine import INSTRUCTION_FIELDS
from tilewright.verify.harmonia_machine import errors, programs
from tilewright.verify.machine.accelerators import BenchSide

SIDE = BenchSide(
    weights="operands",
    tensors="fp16",
    line_move="load mantissas, row={k}, rows=4, line=0",
    overflow=(
        "add r0, r0, #inf, elements=1\nconvert activations, source=0, destination=0, elements=1"
    ),
    gemm_shape=(3, 20, 33),
    names=programs.NAMES,
    sized=programs.sized,
    activation_rows=programs.activation_rows,
    random_program=programs.random_program,
    directed_program=programs.directed_program,
    wrong_programs=errors.wrong_programs,
    last_rows=errors.last_rows,
    instruction_fields=INSTRUCTION_FIELDS,
    check_word=errors.check_word,
    ends=errors.ends,
    kinds_of_errors=4,
)
