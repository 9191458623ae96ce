"""Harmonia's part of the benches of programs; ``tests.py`` has cocotb tests of its own."""

from tilewright.verify.harmonia_machine.errors import last_rows, wrong_programs
from tilewright.verify.harmonia_machine.programs import (
    activation_rows,
    directed_program,
    random_program,
)

__all__ = ["activation_rows", "directed_program", "last_rows", "random_program", "wrong_programs"]

WEIGHTS, TENSORS = "operands", "fp16"
OVERFLOW = """
add r0, r0, #inf, elements=1
convert activations, source=0, destination=0, elements=1
"""
