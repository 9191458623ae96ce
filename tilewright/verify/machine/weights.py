"""A program that loads as many weights as the accelerator holds."""

from typing import Any

from tilewright.verify.machine.accelerators import accelerator_of, bench_side

__all__ = ["stream_of_weights"]


def stream_of_weights(params: Any) -> tuple[list, int]:
    """A program that fills the memory of weights, and the lines that it reads."""
    name, system = bench_side(params).weights, accelerator_of(params)
    memory = system.memory[name.upper()]
    rows = params.depth(memory)
    program = system.assemble(f"load {name}, row=0, rows={rows}, line=0\nhalt")
    return program, params.lines(memory, rows)
