"""Instructions of the Harmonia accelerator: their text, the rows they touch, and their checks.

The encoding is declared in :mod:`tilewright.golden.params.harmonia_machine`, the general form of
the text is that of :mod:`tilewright.golden.machine.assembly`:

    configure lanes=0xff, tokens=160, dataflow=row_major   ; 0xffff, 0, column_major unless said
    load fp16, row=0, rows=32, line=0x40
    load fp16, row=32, rows=32, line=0x60, spread=3                 ; bank 2's values to all banks
    learn source=0, elements=128, first=1, last=1
    convert keys, source=0, elements=128, destination=0, low_halves=512, metadata=0
    convert values, source=0, elements=128, destination=64, low_halves=600, metadata=64, tokens=8
    convert activations, source=32, elements=128, destination=0
    configure tokens=160, causal_limit=1                            ; causal
    gemm keys, source=0, operands=0, low_halves=512, metadata=0, destination=128, groups=4, \
tiles=10, maxima=1, register=0
    powers r128, r128, s0, elements=160, total=s1, causal_limit=1   ; causal
    clear low_halves=512, rows=4, part=1
    tiled_gemm source=0, weights=0x1000, destination=0x20, groups=4, tiles=8, token_tiles=2, keep=4
    store fp16, row=0, rows=32, line=0x80
    halt

:func:`check` gives the error with which the hardware stops at an instruction.
:func:`first_hazard` finds what the hardware does not check: an instruction reads and writes its
memories row by row, so the result of one that overwrites its own operands would depend on timing.
Between instructions there are no hazards: those that run at the same time touch different regions.
"""

from collections.abc import Iterator, Sequence
from typing import ClassVar, NamedTuple

from tilewright.golden.machine.assembly import Assembler
from tilewright.golden.machine.extent import (
    Extent,
    Hazard,
    Ranges,
    bad_address,
    bad_size,
    find_hazard,
)
from tilewright.golden.machine.instruction import (
    BaseInstruction,
    bad_vector_operand,
    tensor_operands,
    works_on_scalars,
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
    Sums,
)
from tilewright.golden.params.machine import SCALARS, Error
from tilewright.golden.params.vector import Operation

ACTIVATIONS: tuple[Memory, ...] = (Memory.MANTISSAS, Memory.SIGNS, Memory.EXPONENTS)
WEIGHTS: tuple[Memory, ...] = (Memory.OPERANDS, Memory.SCALES)
CACHED: tuple[Operand, ...] = (Operand.KEYS, Operand.VALUES)
_METADATA: tuple[Memory, ...] = (Memory.OPERAND_SIGNS, Memory.OPERAND_EXPONENTS)
_SCALES: tuple[Memory, ...] = (Memory.SCALES,)


class Settings(NamedTuple):
    """The settings of ``configure``; a program starts with these."""

    lanes: int = (1 << LANES_FIELD) - 1
    tokens: int = 0
    dataflow: Dataflow = Dataflow.COLUMN_MAJOR
    causal_limit: int = 0

    def after(self, x: BaseInstruction) -> "Settings":
        """The settings after an instruction."""
        if x.opcode is not Opcode.CONFIGURE:
            return self
        return Settings(x["lanes"], x["tokens"], Dataflow(x["dataflow"]), x["causal_limit"])


class Instruction(BaseInstruction):
    """An opcode of the Harmonia accelerator and its fields."""

    FIELDS: ClassVar = INSTRUCTION_FIELDS
    DEFAULTS: ClassVar = {
        Opcode.LOAD: {"spread": 0},
        Opcode.CONFIGURE: Settings()._asdict(),
        Opcode.GEMM: {"low_halves": 0, "token_tiles": 1, "maxima": 0, "register": 0},
        Opcode.CONVERT: dict.fromkeys(("low_halves", "metadata", "part", "tokens", "short"), 0),
        Opcode.LEARN: {"first": 0, "last": 0},
        Opcode.CLEAR: {"part": 0},
    }


decode = Instruction.decode
_LANGUAGE = Assembler(
    Instruction,
    leading={
        Opcode.LOAD: ("memory", Memory),
        Opcode.STORE: ("memory", Memory),
        Opcode.GEMM: ("operand", Operand),
        Opcode.CONVERT: ("conversion", Conversion),
    },
    choices={"dataflow": Dataflow},
    vector_settings=("causal_limit",),
    vector_operations=tuple(Operation),
)
assemble, disassemble = _LANGUAGE.assemble, _LANGUAGE.disassemble


def groups_of(params: HarmoniaParams, elements: int) -> int:
    return -(-elements // params.group)


def words_of(params: HarmoniaParams, elements: int) -> int:
    """Rows of a token tile in the fp16 memory."""
    return -(-elements // params.word_values)


def tiles_of(params: HarmoniaParams, elements: int) -> int:
    """Tiles of columns that ``elements`` elements fill."""
    return -(-elements // params.columns)


def operand_tiles(params: HarmoniaParams, x: Instruction) -> int:
    """Tiles of columns whose rows a gemm takes: of weights those of whole blocks."""
    return x["tiles"] if x["operand"] in CACHED else params.whole_tiles(x["tiles"])


def sums_of(x: Instruction) -> Sums:
    """How the sums of a gemm begin and end."""
    shared = x.opcode is Opcode.GEMM and x["operand"] == Operand.SHARED
    return Sums(x["register"] & (Sums.OPEN | Sums.FURTHER) if shared else 0)


def extents(params: HarmoniaParams, x: Instruction) -> list[Extent]:
    """Every range of rows that an instruction without earlier errors may touch."""
    p = params
    match x.opcode:
        case Opcode.LOAD | Opcode.STORE:
            return [Extent(Memory(x["memory"]), x["row"], x["rows"])]
        case Opcode.GEMM:
            operand, groups, tiles = Operand(x["operand"]), x["groups"], x["tiles"]
            token_tiles, rows = x["token_tiles"], operand_tiles(p, x) * groups
            touched = [
                Extent(Memory.MANTISSAS, x["source"], token_tiles * groups),
                Extent(Memory.OPERANDS, x["operands"], rows),
                Extent(Memory.OPERAND_SIGNS, x["metadata"], rows),
                Extent(Memory.FP16, x["destination"], token_tiles * tiles * p.tile_words),
            ]
            if operand in CACHED:  # the whole ring, used or not
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


def check(params: HarmoniaParams, x: Instruction | None) -> Error:
    """Why the machine would stop at this instruction; ``Error.NONE`` if it would not.

    A tiled GEMM is checked part by part, as its parts are executed. With row groups there is none:
    weights lie in blocks of tiles then.
    """
    if x is None or (x.opcode is Opcode.TILED_GEMM and params.row_groups > 1):
        return Error.OPCODE
    if _bad_operand(params, x):
        return Error.OPERAND
    if bad_size(params, x):
        return Error.SIZE
    if x.opcode is Opcode.GEMM and x["maxima"] and x["token_tiles"] > SCALARS:
        return Error.SIZE
    shared = x.opcode is Opcode.GEMM and x["operand"] == Operand.SHARED
    if shared and x["tiles"] % params.row_groups:
        return Error.SIZE
    if Sums.OPEN in sums_of(x) and (x["tiles"], x["token_tiles"]) != (params.row_groups, 1):
        return Error.SIZE
    is_values = x.opcode is Opcode.CONVERT and x["conversion"] == Conversion.VALUES
    if is_values and not 1 <= x["tokens"] <= params.group:
        return Error.SIZE
    if shared and (x["operands"] % params.row_groups or x["metadata"] % params.row_groups):
        return Error.ADDRESS
    if bad_address(params, x, extents(params, x)):
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
            shared = x["operand"] == Operand.SHARED
            return x["operand"] not in params.operands or (shared and bool(x["maxima"]))
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
        return cls(
            sum(params.lines(memory, groups) for memory in ACTIVATIONS),
            sum(params.lines(memory, groups) for memory in WEIGHTS),
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
            line, memories = x["source"] + tile * sizes.source, ACTIVATIONS
        else:
            line, memories = x["weights"] + tile * sizes.weights, WEIGHTS
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
            yield Instruction(Opcode.GEMM, {"groups": x["groups"], stays: count, passes: 1})
            for k in range(count):
                token_tile, tile = (passing, first + k) if column_major else (first + k, passing)
                line = x["destination"] + (token_tile * x["tiles"] + tile) * sizes.destination
                place = {"row": k * params.tile_words, "rows": params.tile_words, "line": line}
                yield Instruction(Opcode.STORE, {"memory": int(Memory.FP16)} | place)


def first_hazard(params: HarmoniaParams, program: Sequence[Instruction]) -> Hazard | None:
    """The first instruction whose result depends on timing, and why; None if there is none."""
    return find_hazard(
        program,
        Settings(),
        lambda _, x: check(params, x),
        lambda _, x: ranges(params, x),
        lambda settings, x: expand(params, settings, x) if x.opcode is Opcode.TILED_GEMM else (x,),
    )


def ranges(params: HarmoniaParams, x: Instruction) -> Ranges:
    touched = extents(params, x)
    match x.opcode:
        case Opcode.LOAD | Opcode.CLEAR:
            return Ranges([], touched)
        case Opcode.STORE | Opcode.LEARN:
            return Ranges(touched, [])
        case Opcode.VECTOR if Operation(x["operation"]).reduces or works_on_scalars(x):
            return Ranges(touched, [])
        case Opcode.VECTOR:
            return Ranges(touched[:-1], touched[-1:])
        case Opcode.CONVERT:
            metadata = ACTIVATIONS if x["conversion"] == Conversion.ACTIVATIONS else _METADATA
            return Ranges(touched[:1], _everywhere(touched[1:], metadata))
        case Opcode.GEMM:
            metadata = _METADATA if x["operand"] in CACHED else _SCALES
            reads = [e for e in touched if e.memory is not Memory.FP16]
            writes = [e for e in touched if e.memory is Memory.FP16]
            return Ranges(_everywhere(_everywhere(reads, metadata), ACTIVATIONS), writes)
    return Ranges([], [])


def _everywhere(touched: list[Extent], memories: tuple[Memory, ...]) -> list[Extent]:
    """Expand rows of signs or mantissas to those of all memories with the same rows."""
    stands = Memory.MANTISSAS if memories is ACTIVATIONS else Memory.OPERAND_SIGNS
    return [
        Extent(memory, e.first, e.rows)
        for e in touched
        for memory in (memories if e.memory is stands else (e.memory,))
    ]
