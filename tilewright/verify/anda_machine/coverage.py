"""Anda's instructions that have a size, besides moves and those of vectors."""

from tilewright.golden.anda_machine.isa import Instruction
from tilewright.golden.params.anda_machine import AndaParams

__all__ = ["NAMES", "sized"]

NAMES = ("gemm", "compress")


def sized(params: AndaParams, x: Instruction) -> tuple[str, bool] | None:
    """Name, and whether it works on several groups; None for others."""
    name = x.opcode.name.lower()
    if name not in NAMES:
        return None
    return name, x["inputs" if name == "gemm" else "elements"] > params.group
