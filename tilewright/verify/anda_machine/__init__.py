"""Anda's part of the benches of programs; ``tests.py`` has cocotb tests of its own."""

from tilewright.golden.params.anda_machine import INSTRUCTION_FIELDS
from tilewright.verify.anda_machine import errors, programs
from tilewright.verify.machine.accelerators import BenchSide

SIDE = BenchSide(
    weights="weights",
    tensors="activations",
    line_move="load activations, row={k}, rows=4, line=0",
    overflow=(
        "configure source=0, result=3\nadd r0, r0, #inf, elements=1\n"
        "compress source=0, destination=64, elements=1"
    ),
    gemm_shape=(3, 40, 68),
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
    kinds_of_errors=5,
)
