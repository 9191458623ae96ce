"""Every programmable accelerator by its parameters: its golden side, and that of benches."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from enum import IntEnum
from importlib import import_module
from typing import Any

from tilewright.golden.machine.extent import Hazard
from tilewright.golden.params.block import BlockParams, Field
from tilewright.golden.params.machine import Error

_SYSTEMS = {  # by block: its golden package and its parameter file
    "anda": ("tilewright.golden.anda_machine", "tilewright.golden.params.anda_machine"),
    "harmonia": ("tilewright.golden.harmonia_machine", "tilewright.golden.params.harmonia_machine"),
}


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


@dataclass(frozen=True, kw_only=True)
class BenchSide:
    """An accelerator's own part of the benches of programs."""

    weights: str  # memories whose rows take a line at most: one of weights
    tensors: str  # and one of tensors, which stores
    line_move: str  # an instruction that loads a line, to row {k}
    overflow: str  # instructions that convert an infinity
    gemm_shape: tuple[int, int, int]  # with results in lines of both channels of the small preset
    names: tuple[str, ...]  # of instructions that have a size, besides moves and those of vectors
    sized: Callable[[Any, Any], tuple[str, bool] | None]  # name of one, and whether of several
    activation_rows: Callable[..., list]  # of a token tile of a product, as they are loaded
    random_program: Callable[[Any, int], Any]  # of a seed: a builder
    directed_program: Callable[[Any, int], tuple[list, Any]]  # and the memory it starts with
    wrong_programs: Callable[[Any], dict[str, tuple[list, Error]]]
    last_rows: Callable[[Any], list]  # a program whose ranges end where the memories do
    instruction_fields: Mapping[Any, Sequence[Field]]
    check_word: Callable[[Any, int], Error]  # golden's verdict
    ends: Callable[[Any], tuple[int, ...]]  # sizes of the memories
    kinds_of_errors: int  # that random words must have


def bench_side(params: BlockParams) -> BenchSide:
    """Return an accelerator's own part of the benches of programs."""
    found: BenchSide = import_module(f"tilewright.verify.{params.block}_machine").SIDE
    return found
