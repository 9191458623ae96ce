"""Every programmable accelerator by its parameters: its golden side, and that of benches."""

from collections.abc import Callable
from dataclasses import dataclass
from enum import IntEnum
from importlib import import_module
from typing import Any

from tilewright.golden.machine.extent import Hazard
from tilewright.golden.params.machine import Error


@dataclass(frozen=True)
class Accelerator:
    """Golden functions that run, count and read programs."""

    machine: Callable[..., Any]  # (params, external memory, bad lines)
    program_cycles: Callable[..., dict]
    assemble: Callable[[str], list]
    disassemble: Callable[[Any], str]
    errors: tuple[Error, ...]  # with which a program can stop
    counter: type[IntEnum]
    memory: Any  # the enumeration of what loads and stores move
    first_hazard: Callable[..., Hazard | None]  # (params, program); not checked by the hardware


def accelerator_of(params: Any) -> Accelerator:
    isa, cycles, executor = (
        import_module(f"tilewright.golden.{params.block}_machine.{name}")
        for name in ("isa", "cycles", "executor")
    )
    return Accelerator(
        executor.Machine,
        cycles.program_cycles,
        isa.assemble,
        isa.disassemble,
        params.errors,
        params.counters,
        executor.Machine.MEMORY,
        isa.first_hazard,
    )


def bench_side(params: Any) -> Any:
    """Return the package with an accelerator's own part of the benches of programs.

    ``WEIGHTS`` and ``TENSORS`` are memories whose rows take a line at most; tensors are stored too.
    ``OVERFLOW`` converts an infinity.
    """
    return import_module(f"tilewright.verify.{params.block}_machine")
