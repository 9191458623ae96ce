"""The golden side of every programmable accelerator, by its parameters."""

from collections.abc import Callable
from dataclasses import dataclass
from enum import IntEnum
from importlib import import_module
from typing import Any

from tilewright.golden.machine.extent import Hazard
from tilewright.golden.params.block import BlockParams
from tilewright.golden.params.machine import Error

__all__ = ["Accelerator", "accelerator_of"]

_SYSTEMS = {  # by block: its golden package and its parameter file
    "anda": ("tilewright.golden.anda_machine", "tilewright.golden.params.anda_machine"),
    "harmonia": ("tilewright.golden.harmonia_machine", "tilewright.golden.params.harmonia_machine"),
}


@dataclass(frozen=True)
class Accelerator:
    """What runs, counts and reads programs."""

    machine: Callable[..., Any]  # (params, external memory, bad lines)
    program_cycles: Callable[..., dict]
    assemble: Callable[[str], list]
    disassemble: Callable[[Any], str]
    errors: tuple[Error, ...]  # with which a program can stop
    counter: type[IntEnum]
    memory: Any  # the enumeration of what loads and stores move
    first_hazard: Callable[..., Hazard | None]  # (params, program); not checked by the hardware


def accelerator_of(params: BlockParams) -> Accelerator:
    golden, declared = _SYSTEMS[params.block]
    assembler = import_module(f"{golden}.assembler")
    return Accelerator(
        import_module(f"{golden}.executor").Machine,
        import_module(f"{golden}.cycles").program_cycles,
        assembler.assemble,
        assembler.disassemble,
        import_module(declared).ERRORS,
        import_module(declared).Counter,
        import_module(declared).Memory,
        import_module(f"{golden}.hazards").first_hazard,
    )
