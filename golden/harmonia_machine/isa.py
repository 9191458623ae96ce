"""Instructions of the Harmonia accelerator: the rows they touch, and their checks.

The encoding is declared in :mod:`tilewright.golden.params.harmonia_machine`. The checks are those
of the hardware: :func:`check` gives the error with which an instruction stops the machine.
"""

from collections.abc import Iterator
from typing import ClassVar, NamedTuple

from tilewright.golden.machine.extent import Extent, out_of_range
from tilewright.golden.machine.instruction import (
    BaseInstruction,
    bad_scalar_register,
    bad_vector_operand,
    tensor_operands,
    zero_size,
)
from tilewright.golden.params.harmonia_machine import (
    INSTRUCTION_FIELDS,
    LANES_FIELD,
    Conversion,
    Dataflow,
    HarmoniaParams,
    Memory,
    Opcode,
    Operand,
)
from tilewright.golden.params.machine import SCALARS, Error


class Instruction(BaseInstruction):
    """An opcode of the Harmonia accelerator and its fields."""

    FIELDS: ClassVar = INSTRUCTION_FIELDS
    MAYBE: ClassVar = ("spread",)


decode = Instruction.decode


class Settings(NamedTuple):
    """The settings of ``configure``; a program starts with these."""

    lanes: int = (1 << LANES_FIELD) - 1
    tokens: int = 0
    dataflow: Dataflow = Dataflow.COLUMN_MAJOR
    causal_limit: int = 0

    @classmethod
    def of(cls, x: Instruction) -> "Settings":
        """The settings of a ``configure``."""
        return cls(x["lanes"], x["tokens"], Dataflow(x["dataflow"]), x["causal_limit"])


def groups_of(params: HarmoniaParams, elements: int) -> int:
    return -(-elements // params.group)


def words_of(params: HarmoniaParams, elements: int) -> int:
    """Rows of a token tile in the fp16 memory."""
    return -(-elements // params.word_values)


def tiles_of(params: HarmoniaParams, elements: int) -> int:
    """Tiles of columns that ``elements`` elements fill."""
    return -(-elements // params.columns)


def extents(params: HarmoniaParams, x: Instruction) -> list[Extent]:
    """Every range of rows that an instruction without earlier errors may touch."""
    p = params
    match x.opcode:
        case Opcode.LOAD | Opcode.STORE:
            return [Extent(Memory(x["memory"]), x["row"], x["rows"])]
        case Opcode.GEMM:
            operand, groups, tiles = Operand(x["operand"]), x["groups"], x["tiles"]
            token_tiles = x["token_tiles"]
            touched = [
                Extent(Memory.MANTISSAS, x["source"], token_tiles * groups),
                Extent(Memory.OPERANDS, x["operands"], tiles * groups),
                Extent(Memory.OPERAND_SIGNS, x["metadata"], tiles * groups),
                Extent(Memory.FP16, x["destination"], token_tiles * tiles * p.tile_words),
            ]
            if operand is not Operand.WEIGHTS:  # the whole ring, used or not
                across = groups if operand is Operand.KEYS else tiles
                rows = p.low_slots(operand) * across
                touched.append(Extent(Memory.OPERANDS, x["low_halves"], rows))
            return touched
        case Opcode.VECTOR:
            rows = words_of(p, x["elements"])
            return [Extent(Memory.FP16, x[name], rows) for name in tensor_operands(x)]
        case Opcode.CONVERT:
            words = words_of(p, x["elements"])
            conversion = Conversion(x["conversion"])
            if conversion is Conversion.ACTIVATIONS:
                groups = groups_of(p, x["elements"])
                return [
                    Extent(Memory.FP16, x["source"], words),
                    Extent(Memory.MANTISSAS, x["destination"], groups),
                ]
            spatial = conversion is Conversion.VALUES
            rows = tiles_of(p, x["elements"]) if spatial else groups_of(p, x["elements"])
            touched = [
                Extent(Memory.FP16, x["source"], words * (p.converter.loops if spatial else 1)),
                Extent(Memory.OPERANDS, x["destination"], rows),
                Extent(Memory.OPERAND_SIGNS, x["metadata"], rows),
            ]
            if not x["short"]:
                touched.append(Extent(Memory.OPERANDS, x["low_halves"], rows))
            return touched
        case Opcode.LEARN:
            return [Extent(Memory.FP16, x["source"], words_of(p, x["elements"]))]
        case Opcode.CLEAR:
            return [Extent(Memory.OPERANDS, x["low_halves"], x["rows"])]
    return []


def check(params: HarmoniaParams, instruction: Instruction | None) -> Error:
    """Why the machine would stop at this instruction; ``Error.NONE`` if it would not.

    A tiled GEMM is checked part by part, as its parts are executed.
    """
    if instruction is None:
        return Error.OPCODE
    x = instruction
    if _bad_operand(params, x):
        return Error.OPERAND
    sized = ("rows", "elements", "groups", "tiles", "token_tiles", "keep", "count", "body")
    if zero_size(x, sized):
        return Error.SIZE
    if x.opcode is Opcode.LOOP and x["body"] > params.longest_loop:
        return Error.SIZE
    if x.opcode is Opcode.GEMM and x["maxima"] and x["token_tiles"] > SCALARS:
        return Error.SIZE
    is_values = x.opcode is Opcode.CONVERT and x["conversion"] == Conversion.VALUES
    if is_values and not 1 <= x["tokens"] <= params.group:
        return Error.SIZE
    if out_of_range(params, extents(params, x)):
        return Error.ADDRESS
    if x.opcode is Opcode.VECTOR and bad_scalar_register(x):
        return Error.ADDRESS
    if _passes_offsets(x) and x["elements"] > params.channels:
        return Error.ADDRESS
    return Error.NONE


def _bad_operand(params: HarmoniaParams, x: Instruction) -> bool:
    match x.opcode:
        case Opcode.LOAD:
            return x["spread"] > (params.rows if x["memory"] == Memory.FP16 else 0)
        case Opcode.STORE:
            return not Memory(x["memory"]).stores
        case Opcode.GEMM:
            return x["operand"] not in Operand.__members__.values()
        case Opcode.VECTOR:
            return bad_vector_operand(params.vector, x)
        case Opcode.CONVERT:
            if x["conversion"] not in Conversion.__members__.values():
                return True
            return x["conversion"] == Conversion.KEYS and x["part"] >= params.parts
        case Opcode.CLEAR:
            return x["part"] >= params.parts
    return False


def _passes_offsets(x: Instruction) -> bool:
    return x.opcode is Opcode.LEARN or (
        x.opcode is Opcode.CONVERT and x["conversion"] == Conversion.KEYS
    )


class TileLines(NamedTuple):
    """Lines of a tiled GEMM's tiles in external memory, for ``groups`` groups."""

    source: int  # a token tile: mantissas, signs, exponents
    weights: int  # a tile of columns: weights, scales
    destination: int  # a result tile

    @classmethod
    def of(cls, params: HarmoniaParams, groups: int) -> "TileLines":
        activation = (Memory.MANTISSAS, Memory.SIGNS, Memory.EXPONENTS)
        operand = (Memory.OPERANDS, Memory.SCALES)
        return cls(
            sum(params.lines(memory, groups) for memory in activation),
            sum(params.lines(memory, groups) for memory in operand),
            params.lines(Memory.FP16, params.tile_words),
        )


def expand(params: HarmoniaParams, settings: Settings, x: Instruction) -> Iterator[Instruction]:
    """The instructions of a tiled GEMM, in the order of the configured dataflow.

    All its tiles begin at row 0 of the memories.
    """
    sizes = TileLines.of(params, x["groups"])
    column_major = settings.dataflow is Dataflow.COLUMN_MAJOR
    stays, passes = ("tiles", "token_tiles") if column_major else ("token_tiles", "tiles")

    def load(of: str, tile: int, row: int) -> Iterator[Instruction]:
        """One tile of activations or weights."""
        if of == "token_tiles":
            line = x["source"] + tile * sizes.source
            memories = [Memory.MANTISSAS, Memory.SIGNS, Memory.EXPONENTS]
        else:
            line = x["weights"] + tile * sizes.weights
            memories = [Memory.OPERANDS, Memory.SCALES]
        for memory in memories:
            move = {"memory": int(memory), "row": row, "rows": x["groups"], "line": line}
            yield Instruction(Opcode.LOAD, move)
            line += params.lines(memory, x["groups"])

    for first in range(0, x[stays], x["keep"]):
        count = min(x["keep"], x[stays] - first)
        for k in range(count):
            yield from load(stays, first + k, k * x["groups"])
        for passing in range(x[passes]):
            yield from load(passes, passing, 0)
            yield Instruction(
                Opcode.GEMM,
                {
                    "operand": int(Operand.WEIGHTS),
                    "source": 0,
                    "operands": 0,
                    "low_halves": 0,
                    "metadata": 0,
                    "destination": 0,
                    "groups": x["groups"],
                    "maxima": 0,
                    "register": 0,
                    stays: count,
                    passes: 1,
                },
            )
            for k in range(count):
                token_tile, tile = (passing, first + k) if column_major else (first + k, passing)
                line = x["destination"] + (token_tile * x["tiles"] + tile) * sizes.destination
                yield Instruction(
                    Opcode.STORE,
                    {
                        "memory": int(Memory.FP16),
                        "row": k * params.tile_words,
                        "rows": params.tile_words,
                        "line": line,
                    },
                )
