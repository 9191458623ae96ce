"""Harmonia's instructions that have a size, besides moves and those of vectors."""

from tilewright.golden.harmonia_machine.isa import Instruction
from tilewright.golden.params.harmonia_machine import Conversion, HarmoniaParams, Opcode, Operand

__all__ = ["NAMES", "sized"]

NAMES = (
    *(f"gemm of {operand.name.lower()}" for operand in Operand),
    *(f"convert {conversion.name.lower()}" for conversion in Conversion),
    *("learn", "clear"),
)


def sized(params: HarmoniaParams, x: Instruction) -> tuple[str, bool] | None:
    """Name, and whether it works on several rows or groups; None for others."""
    match x.opcode:
        case Opcode.GEMM:
            return f"gemm of {Operand(x['operand']).name.lower()}", x["groups"] > 1
        case Opcode.CONVERT:
            name = f"convert {Conversion(x['conversion']).name.lower()}"
            return name, x["elements"] > params.group
        case Opcode.CLEAR:
            return "clear", x["rows"] > 1
        case Opcode.LEARN:
            return "learn", x["elements"] > params.group
    return None
