"""Instructions of the Anda accelerator: the rows they touch, and their checks.

The encoding is declared in :mod:`tilewright.golden.params.anda_machine`. The checks are those of
the hardware: :func:`check` gives the error with which an instruction stops the machine.
"""

from typing import ClassVar, NamedTuple

from tilewright.golden.machine.extent import Extent, out_of_range
from tilewright.golden.machine.instruction import (
    BaseInstruction,
    bad_scalar_register,
    bad_vector_operand,
    tensor_operands,
    zero_size,
)
from tilewright.golden.params.anda import MAX_MANTISSA_BITS
from tilewright.golden.params.anda_machine import (
    FP16_ROWS,
    INSTRUCTION_FIELDS,
    AndaParams,
    Memory,
    Opcode,
    group_rows,
)
from tilewright.golden.params.machine import Error
from tilewright.golden.params.vector import Operation


class Instruction(BaseInstruction):
    """An opcode of the Anda accelerator and its fields."""

    FIELDS: ClassVar = INSTRUCTION_FIELDS


decode = Instruction.decode


class Formats(NamedTuple):
    """Mantissa bits that ``configure`` sets; 0: not Anda."""

    source: int = 0
    result: int = 0

    @classmethod
    def of(cls, x: Instruction) -> "Formats":
        """The formats of a ``configure``."""
        return cls(x["source_mantissa"], x["result_mantissa"])


def groups_of(params: AndaParams, elements: int) -> int:
    return -(-elements // params.group)


def extents(params: AndaParams, formats: Formats, instruction: Instruction) -> list[Extent]:
    """Every range of rows that an instruction without earlier errors touches."""
    x = instruction
    match x.opcode:
        case Opcode.LOAD | Opcode.STORE:
            return [Extent(Memory(x["memory"]), x["row"], x["rows"], x["stride"])]
        case Opcode.GEMM:
            groups = groups_of(params, x["inputs"])
            tiles = -(-x["outputs"] // params.columns)
            results = groups_of(params, x["outputs"]) * group_rows(formats.result)
            weights = tiles * groups * params.mxu.weight_beats
            return [
                Extent(Memory.ACTIVATIONS, x["source"], groups * group_rows(formats.source)),
                Extent(Memory.WEIGHTS, x["weights"], weights),
                Extent(Memory.SCALES, x["scales"], tiles * groups),
                Extent(Memory.ACTIVATIONS, x["destination"], results),
            ]
        case Opcode.COMPRESS:
            groups = groups_of(params, x["elements"])
            results = groups * group_rows(formats.result)
            return [
                Extent(Memory.ACTIVATIONS, x["source"], groups * FP16_ROWS),
                Extent(Memory.ACTIVATIONS, x["destination"], results),
            ]
        case Opcode.VECTOR if Operation(x["operation"]).attends:
            return _attention_extents(params, x)
        case Opcode.VECTOR:
            rows = groups_of(params, x["elements"]) * FP16_ROWS
            return [Extent(Memory.ACTIVATIONS, x[name], rows) for name in tensor_operands(x)]
    return []


def words_of(params: AndaParams, elements: int) -> int:
    """Rows that hold so many fp16 values of a token."""
    return -(-elements // params.vector.row_lanes)


def attention_beats(params: AndaParams, x: Instruction) -> int:
    """Beats of one sum of dots or weigh."""
    weighs = x["operation"] == Operation.WEIGH
    return x["elements"] if weighs else words_of(params, x["elements"])


def _attention_extents(params: AndaParams, x: Instruction) -> list[Extent]:
    """Rows of a, b and the destination of dots or weigh."""
    beats, results = attention_beats(params, x), x["results"]
    across, along = (results - 1) * x["pitch"], (beats - 1) * x["step"]
    if x["operation"] == Operation.WEIGH:
        rows = (across + along + 1, words_of(params, x["elements"]), results)
    else:
        rows = (across + beats, along + 1, words_of(params, results))
    return [
        Extent(Memory.ACTIVATIONS, x[name], count)
        for name, count in zip(("a", "b", "destination"), rows, strict=True)
    ]


def check(params: AndaParams, formats: Formats, instruction: Instruction | None) -> Error:
    """Why the machine would stop at this instruction; ``Error.NONE`` if it would not."""
    if instruction is None:
        return Error.OPCODE
    x = instruction
    if _bad_operand(params, x):
        return Error.OPERAND
    sized = ("rows", "stride", "inputs", "outputs", "elements", "count", "body")
    if zero_size(x, sized) or _empty_attention(x):
        return Error.SIZE
    if x.opcode is Opcode.LOOP and x["body"] > params.longest_loop:
        return Error.SIZE
    if _bad_mantissa(formats, x):
        return Error.MANTISSA
    if out_of_range(params, extents(params, formats, x)):
        return Error.ADDRESS
    if x.opcode is Opcode.VECTOR and bad_scalar_register(x):
        return Error.ADDRESS
    return Error.NONE


def _bad_operand(params: AndaParams, x: Instruction) -> bool:
    if x.opcode in (Opcode.LOAD, Opcode.STORE):
        known = x["memory"] in Memory.__members__.values()
        return not known or (x.opcode is Opcode.STORE and not Memory(x["memory"]).stores)
    return x.opcode is Opcode.VECTOR and bad_vector_operand(params.vector, x)


def _empty_attention(x: Instruction) -> bool:
    """Dots or weigh without results or steps."""
    if x.opcode is not Opcode.VECTOR or not Operation(x["operation"]).attends:
        return False
    return 0 in (x["results"], x["step"], x["pitch"])


def _bad_mantissa(formats: Formats, x: Instruction) -> bool:
    match x.opcode:
        case Opcode.CONFIGURE:
            return max(x["source_mantissa"], x["result_mantissa"]) > MAX_MANTISSA_BITS
        case Opcode.GEMM:
            return formats.source == 0
        case Opcode.COMPRESS:
            return formats.result == 0
    return False
