"""Sizes of an accelerator's instructions, which its directed programs have all."""

from typing import Any

from tilewright.golden.machine.instruction import BaseInstruction, works_on_scalars
from tilewright.golden.params.vector import Operation
from tilewright.verify.machine.accelerators import accelerator_of, bench_side

__all__ = ["size_of", "sized_instructions"]


def sized_instructions(params: Any) -> list[str]:
    """Names of the instructions that have a size; others (halt, loops, ...) every program has."""
    memory = accelerator_of(params).memory
    names = [f"load {m.name.lower()}" for m in memory]
    names += [f"store {m.name.lower()}" for m in memory if m.stores]
    names += [operation.name.lower() for operation in params.vector.operations]
    return [*names, *bench_side(params).names]


def size_of(params: Any, x: BaseInstruction) -> tuple[str, bool] | None:
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
