"""Anda's part of the benches of programs; ``tests.py`` has cocotb tests of its own."""

from tilewright.verify.anda_machine.errors import last_rows, wrong_programs
from tilewright.verify.anda_machine.programs import (
    activation_rows,
    directed_program,
    random_program,
)

__all__ = ["activation_rows", "directed_program", "last_rows", "random_program", "wrong_programs"]

WEIGHTS, TENSORS = "weights", "activations"
OVERFLOW = """
configure source=0, result=3
add r0, r0, #inf, elements=1
compress source=0, destination=64, elements=1
"""
