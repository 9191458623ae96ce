"""What programs of an accelerator can meet: instructions by size, memory and stalls; errors.

An instruction is counted when the program that has it ran on the emitted Verilog and left golden's
memory, events and counters; without stalls, golden's cycles too. Instructions that have no size
(halt, wait, configure, loops, those of scalars alone) are no part of it: every program has some.
"""

from collections.abc import Iterable
from importlib import import_module
from typing import Any

from tilewright.golden.machine.instruction import BaseInstruction, works_on_scalars
from tilewright.golden.params.machine import Error
from tilewright.golden.params.vector import Operation
from tilewright.verify.coverage import Coverage
from tilewright.verify.machine.accelerators import accelerator_of
from tilewright.verify.machine.check import LATENCIES

__all__ = ["error_coverage", "instruction_coverage", "latency_name", "place_of", "stall_name"]

ONE, SEVERAL = "one", "several"  # rows of a move, groups of anything else


def stall_name(stall: float) -> str:
    """How often a side waits, in words."""
    return "never" if not stall else f"{stall:.0%} of cycles"


def latency_name(seed: int) -> str:
    """The memory that programs of this seed run on."""
    return f"{LATENCIES[seed % len(LATENCIES)]} cycles"


def instruction_coverage(params: Any, stalls: Iterable[float]) -> Coverage:
    """Every instruction that has a size x one row or group, or several x memory x stalls."""
    return Coverage(
        {
            "instruction": _names(params),
            "size": (ONE, SEVERAL),
            "memory": [latency_name(k) for k in range(len(LATENCIES))],
            "stall": [stall_name(stall) for stall in stalls],
        }
    )


def error_coverage(params: Any, stalls: Iterable[float]) -> Coverage:
    """Every error that a program can stop with x stalls; the watchdog has a bench of its own."""
    left_out = (Error.NONE, Error.WATCHDOG)
    errors = [e.name.lower() for e in accelerator_of(params).errors if e not in left_out]
    return Coverage({"error": errors, "stall": [stall_name(stall) for stall in stalls]})


def _names(params: Any) -> list[str]:
    memory = accelerator_of(params).memory
    names = [f"load {m.name.lower()}" for m in memory]
    names += [f"store {m.name.lower()}" for m in memory if m.stores]
    names += [operation.name.lower() for operation in params.vector.operations]
    return [*names, *_own(params).NAMES]


def _own(params: Any) -> Any:
    """What an accelerator's instructions are besides moves and those of vectors."""
    return import_module(f"tilewright.verify.{params.block}_machine.coverage")


def place_of(params: Any, x: BaseInstruction) -> dict[str, str] | None:
    """Return the name and size of an instruction; None where it has no size."""
    kind = x.opcode.name.lower()
    match kind:
        case "load" | "store":
            memory = accelerator_of(params).memory(x["memory"])
            name, several = f"{kind} {memory.name.lower()}", x["rows"] > 1
        case "vector":
            if works_on_scalars(x):
                return None
            name = Operation(x["operation"]).name.lower()
            several = x.fields.get("elements", 0) > params.group
        case _:
            own = _own(params).sized(params, x)
            if own is None:
                return None
            name, several = own
    return {"instruction": name, "size": SEVERAL if several else ONE}
