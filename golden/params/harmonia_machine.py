"""The Harmonia accelerator: sizes, instruction set, counters, ports.

A *row* is an address of a memory. Everything works on *token tiles* of ``rows`` tokens: token t of
a sequence always lies in bank t mod ``rows``. Second operands lie in tiles of ``columns``: outputs
of a linear layer, cached tokens (K) or channels (V). docs/harmonia-system.md explains programs.
"""

from dataclasses import dataclass
from enum import IntEnum, IntFlag
from typing import ClassVar

from tilewright.golden.params.block import BlockParams, Field, Untimed, require
from tilewright.golden.params.formats import FP16
from tilewright.golden.params.harmonia import (
    ACTIVATION_BITS,
    OPERAND_BITS,
    CacheParams,
    HarmoniaArrayParams,
    HarmoniaConverterParams,
    HarmoniaNumerics,
    HarmoniaOffsetParams,
)
from tilewright.golden.params.machine import (
    EXPONENT_BYTE,
    LINE_FIELD,
    LOOP_FIELDS,
    ROW_FIELD,
    SCALARS,
    SIZE_FIELD,
    VECTOR_ADDRESSES,
    VECTOR_FIELDS,
    Depth,
    Error,
    MachineMemory,
    MachineParams,
    indexed,
)
from tilewright.golden.params.machine_axi import MachineAxiPorts
from tilewright.golden.params.vector import PIPELINED_BEAT_CYCLES, VectorParams

MEMORY_BITS = 3
COUNT_FIELD = 10  # groups, tiles
TILE_FIELD = 8  # token tiles
LANES_FIELD = 16
TOKENS_FIELD = 24
PRODUCT_LINE_FIELD = 28
SCALAR_FIELD = (SCALARS - 1).bit_length()
SPREAD_FIELD = LANES_FIELD.bit_length()  # no bank, or one of them


class Opcode(IntEnum):
    """The instructions; 0, the content of an empty memory, is none."""

    HALT = 1  # the program is done, when all units are
    CONFIGURE = 2  # lanes, tokens in the cache, dataflow
    LOAD = 3  # lines of external memory to rows of a memory
    STORE = 4  # rows of a memory to lines of external memory
    WAIT = 5  # until all units are done
    GEMM = 6  # token tiles times operands, all on chip
    VECTOR = 7  # one operation of the vector unit on a token tile
    CONVERT = 8  # fp16 to block floating point: activations, keys or values
    LEARN = 9  # a token tile of the initial window through the offset generator
    CLEAR = 10  # low halves of keys that leave the local window
    TILED_GEMM = 11  # a whole GEMM from and to external memory, in the configured dataflow
    LOOP = 12  # the next instructions, several times


class Memory(MachineMemory):
    """The memories of loads and stores."""

    MANTISSAS = 0  # of activations: a group of every token of a tile
    SIGNS = 1
    EXPONENTS = 2
    FP16 = 3  # fp16: four values of every token of a tile
    OPERANDS = 4  # 4-bit: weights, or halves of mantissas, a group of every column
    OPERAND_SIGNS = 5
    OPERAND_EXPONENTS = 6
    SCALES = 7  # of weights

    @property
    def buffer(self) -> "Memory":
        if self is Memory.FP16:
            return self
        return Memory.OPERANDS if self >= Memory.OPERANDS else Memory.MANTISSAS

    @property
    def takes_beats(self) -> bool:
        return self >= Memory.OPERANDS

    @property
    def stores(self) -> bool:
        return self is not Memory.SCALES

    @property
    def element_bits(self) -> int:
        return {
            Memory.MANTISSAS: ACTIVATION_BITS,
            Memory.FP16: FP16.bits,
            Memory.OPERANDS: OPERAND_BITS,
            Memory.SCALES: FP16.bits,
        }.get(self, 1 if "SIGNS" in self.name else EXPONENT_BYTE)


class Operand(IntEnum):
    """The second operand of a gemm."""

    WEIGHTS = 0  # M8W4
    KEYS = 1  # a column is a cached token, its groups run along the channels
    VALUES = 2  # a column is a channel, its groups run along the cached tokens
    SHARED = 3  # weights of several tiles at once: every row group takes a tile of its own


class Sums(IntFlag):
    """The sums of a shared gemm that has some of the groups: its field ``register``."""

    OPEN = 1  # they stay in the array, where the next gemm goes on: there are no results
    FURTHER = 2  # the gemm before has left them open; only a mark, the array goes on anyway


class Conversion(IntEnum):
    """Where converted values go."""

    ACTIVATIONS = 0  # along a token, into the activation memories
    KEYS = 1  # along a token, less the offsets, into columns of the operand memories
    VALUES = 2  # along ``group`` tokens of a channel, into the operand memories


class Dataflow(IntEnum):
    """Which loop of a gemm is the outer one, and what a tiled GEMM keeps on chip."""

    COLUMN_MAJOR = 0  # operands stay, activations pass
    ROW_MAJOR = 1  # activations stay, operands pass


_MOVE = indexed(
    (
        Field("memory", MEMORY_BITS),
        Field("row", ROW_FIELD),
        Field("rows", SIZE_FIELD),
        Field("line", LINE_FIELD),  # of external memory
    ),
    *("row", "line"),
)

# After the opcode, the first field lowest; bits above the last one are ignored.
INSTRUCTION_FIELDS: dict[Opcode, tuple[Field, ...]] = {
    Opcode.HALT: (),
    Opcode.CONFIGURE: (
        Field("lanes", LANES_FIELD),  # banks that are written: bit r is token r of a tile
        Field("tokens", TOKENS_FIELD),  # in the cache: what is old and what is recent
        Field("dataflow", 1),
        # Maxima of a gemm: row r of token tile t sees the first causal_limit + t * rows + r
        # columns; all of them if it is 0.
        Field("causal_limit", SIZE_FIELD),
    ),
    # fp16: 0, or one more than the number of a bank whose values all banks that are written take.
    Opcode.LOAD: (*_MOVE, Field("spread", SPREAD_FIELD)),
    Opcode.STORE: _MOVE,
    Opcode.WAIT: (),
    Opcode.GEMM: indexed(
        (
            Field("operand", 2),
            Field("source", ROW_FIELD),  # of the activation memories
            Field("operands", ROW_FIELD),  # weights, or high halves
            Field("low_halves", ROW_FIELD),  # low halves; not of weights
            Field("metadata", ROW_FIELD),  # signs and exponents, or scales
            Field("destination", ROW_FIELD),  # of the fp16 memory
            Field("groups", COUNT_FIELD),
            Field("tiles", COUNT_FIELD),
            Field("token_tiles", TILE_FIELD),
            # The largest result of every row goes to the scalar register, of token tile t to the
            # t-th after it, wrapping after the last register. Of a shared gemm: Sums.
            Field("maxima", 1),
            Field("register", SCALAR_FIELD),
        ),
        *("source", "operands", "low_halves", "metadata", "destination"),
    ),
    Opcode.VECTOR: indexed(
        (
            *VECTOR_FIELDS,
            # If not 0: element e of bank r of tensor a reads as -infinity where
            # e >= causal_limit + r.
            Field("causal_limit", SIZE_FIELD),
            Field("total", SCALAR_FIELD),  # powers: the scalar register of their sum
        ),
        *VECTOR_ADDRESSES,
    ),
    Opcode.CONVERT: indexed(
        (
            Field("conversion", 2),
            Field("source", ROW_FIELD),  # of the fp16 memory
            Field("elements", SIZE_FIELD),  # of a token
            Field("destination", ROW_FIELD),  # activations, or high halves
            Field("low_halves", ROW_FIELD),
            Field("metadata", ROW_FIELD),
            Field("part", 8),  # keys: which ``rows`` of the tile's columns
            Field("tokens", 8),  # values: of the group; later ones count as +0
            Field("short", 1),  # 4 bits: low halves are not written
        ),
        *("source", "destination", "low_halves", "metadata"),
    ),
    Opcode.LEARN: indexed(
        (
            Field("source", ROW_FIELD),
            Field("elements", SIZE_FIELD),
            Field("first", 1),
            Field("last", 1),
        ),
        *("source",),
    ),
    Opcode.CLEAR: indexed(
        (Field("low_halves", ROW_FIELD), Field("rows", SIZE_FIELD), Field("part", 8)),
        *("low_halves",),
    ),
    Opcode.TILED_GEMM: (
        Field("source", PRODUCT_LINE_FIELD),  # lines
        Field("weights", PRODUCT_LINE_FIELD),
        Field("destination", PRODUCT_LINE_FIELD),
        Field("groups", COUNT_FIELD),
        Field("tiles", COUNT_FIELD),
        Field("token_tiles", TILE_FIELD),
        Field("keep", TILE_FIELD),  # tiles that stay on chip at a time
    ),
    Opcode.LOOP: LOOP_FIELDS,
}


# With which a program can stop; mantissas are of one length.
ERRORS = tuple(error for error in Error if error is not Error.MANTISSA)


class Counter(IntEnum):
    """Counters of a running program."""

    CYCLES = 0  # from the start to the halt
    INSTRUCTIONS = 1  # issued; of a product those that it consists of
    MATRIX_BUSY = 2  # sums that the array took
    MATRIX_WAITS = 3  # a sum was there, the array not ready
    CONTROL = 4  # cycles that fetched, decoded and checked
    LOAD = 5  # cycles in which the unit works on a load; GEMM to CONVERT likewise
    GEMM = 6
    VECTOR = 7
    LINES_READ = 8
    LINES_WRITTEN = 9
    MANTISSA_LINES = 10  # of those read: mantissas of activations
    OPERAND_LINES = 11  # of those read: weights or halves of mantissas
    GROUPS_CONVERTED = 12  # one for every token and group, or column and group
    STORE = 13
    CONVERT = 14  # also of learn and clear


_SMALL = {
    "rows": 2,
    "columns": 4,
    "group": 8,
    "channels": 16,
    "offsets": 2,
    "initial": 8,
    "local": 16,
    "memory_channels": 2,
    "line_bytes": 64,
    "dma_lines": 8,
}

# One token at a time and one narrow port, to fit an ECP5-85F: a beat of memory is at most a row of
# operands, so few rows share a word of their banks. Two regions, one to fill while the other is
# read, need a quarter less wire than four.
_FPGA = {
    **_SMALL,
    "rows": 1,
    "activation_rows": 256,
    "halves_rows": 512,
    "operand_rows": 512,
    "regions": 2,
    "memory_channels": 1,
    "line_bytes": 16,
    "pipelined": True,
}

# One token at a time: as many row groups as a beat of the port has rows of operands, so that the
# array takes weights as fast as the port brings them, and a converter as wide; loads follow one
# another without the latency of each. The token's vector stays on chip, apart from what is at work.
_CONVERTER = {"converter_width": 4, "spatial_width": 4}
_DECODE = {"row_groups": 4, "loads": 4, "halves_rows": 4096, "regions": 8} | _CONVERTER


@dataclass(frozen=True, kw_only=True)
class HarmoniaParams(MachineParams):
    """The accelerator of the paper's Figure 12; the paper does not say how large its memories are.

    Rows, columns and the group are powers of two, so that a row of any memory is a part or a
    multiple of a line.
    """

    counters: ClassVar = Counter
    errors: ClassVar = ERRORS
    block: ClassVar[str] = "harmonia"
    summary: ClassVar[str] = "Harmonia accelerator: array, converter, KV cache, programs"
    PRESETS: ClassVar = {
        "paper": {},
        # A row of the fp16 memory in a cycle: conversions take less time than products.
        "wide": {"converter_width": 4},
        "small": _SMALL,
        "fpga": _FPGA,
        "decode": _DECODE,
        "small_decode": _SMALL
        | {"rows": 4, "columns": 8, "row_groups": 2, "loads": 4, "regions": 8}
        | _CONVERTER,
    }

    rows: int = 8  # of the array: tokens of a tile
    # Into which a shared gemm divides the rows: each takes other outputs, where tokens are few.
    row_groups: int = 1
    columns: int = 16
    group: int = 32
    channels: int = 128  # of K, that the offset generator knows
    offsets: int = 8
    initial: int = 32  # tokens of 8 bits at the beginning
    local: int = 64  # and at the end
    activation_rows: Depth = 1024  # 256 KB of mantissas, 32 KB of signs, 8 KB of exponents
    converter_width: int = 1  # elements of every token of a tile that are converted in a cycle
    spatial_width: int = 1  # channels of V, or as many as elements
    halves_rows: Depth = 2048  # 128 KB
    operand_rows: Depth = 2048  # 512 KB of operands, 224 KB of signs, exponents and scales
    regions: int = 4  # of every memory: units work at the same time in different ones
    instructions: int = 2048
    memory_channels: int = 8  # of external memory, as an HBM2 stack has
    line_bytes: int = 128  # of a channel in a cycle, of which HBM2 brings some 110
    dma_lines: int = 64  # outstanding requests of a channel: 150 ns and more
    address_bits: int = 48
    loads: int = 1  # under way
    pipelined: bool = False  # for FPGAs: registers in array and vector unit, at starts

    timing = Untimed("a program's cycles: see tilewright.golden.harmonia_machine.cycles")
    word_values: ClassVar[int] = 4  # fp16 values of a token in a row: the order of softmax's sums

    def __post_init__(self) -> None:
        super().__post_init__()
        _ = self.array, self.converter, self.offset, self.cache  # these have rules of their own
        for name in ("rows", "columns", "group"):
            value = getattr(self, name)
            require(value & (value - 1) == 0, f"{name} must be a power of two, not {value!r}")
        require(self.rows <= LANES_FIELD, f"rows must be at most {LANES_FIELD}, not {self.rows!r}")
        least = max(self.rows, self.word_values)
        require(
            self.columns >= least,
            f"columns must be at least {least}, the rows and a word, not {self.columns!r}",
        )
        # A tile of results has no more columns than a group, and two parts of a column of V leave
        # the converter before it is written.
        least = max(self.columns, 2 * self.rows)
        require(self.group >= least, f"group must be at least {least}, not {self.group!r}")
        require(
            self.channels % self.group == 0,
            f"channels must be a multiple of the group {self.group}, not {self.channels!r}",
        )
        self.check_ports()
        # A word of results is written in as many cycles; a word of operands holds a row of each.
        most = min(self.rows, self.word_values, self.ways(Memory.OPERANDS))
        require(
            self.row_groups in (1, 2, 4) and self.row_groups <= most,
            f"row_groups must be 1, 2 or 4, at most {most}, not {self.row_groups!r}",
        )

    @property
    def numerics(self) -> HarmoniaNumerics:
        return HarmoniaNumerics(group=self.group)

    @property
    def array(self) -> HarmoniaArrayParams:
        return self.shared(HarmoniaArrayParams, words=self.operand_rows)

    @property
    def beat_cycles(self) -> int:
        """Cycles that a beat takes in array and vector unit."""
        return PIPELINED_BEAT_CYCLES if self.pipelined else 1

    @property
    def converter(self) -> HarmoniaConverterParams:
        return self.shared(HarmoniaConverterParams, width=self.converter_width)

    @property
    def offset(self) -> HarmoniaOffsetParams:
        return self.shared(HarmoniaOffsetParams, width=self.converter_width)

    @property
    def feeder_cycles(self) -> int:
        """Cycles of a conversion's beat on its way from the fp16 memory."""
        return 2 if self.pipelined else 1

    @property
    def cache(self) -> CacheParams:
        return self.shared(CacheParams, offset_channels=self.offsets)

    @property
    def vector(self) -> VectorParams:
        return VectorParams(
            rows=self.rows,
            group=self.word_values * FP16.bits,
            fused=True,
            beat_cycles=self.beat_cycles,
        )

    @property
    def tile_words(self) -> int:
        """Rows of fp16 results of one tile of columns."""
        return self.columns // self.word_values

    @property
    def operands(self) -> tuple[Operand, ...]:
        """The second operands of its gemms."""
        return tuple(x for x in Operand if x is not Operand.SHARED or self.row_groups > 1)

    @property
    def parts(self) -> int:
        """Token tiles whose keys share a tile of columns."""
        return self.columns // self.rows

    def unit(self, operand: Operand) -> int:
        """Tokens that share a precision: a tile of keys, or a group of values."""
        return self.columns if operand is Operand.KEYS else self.group

    def initial_slots(self, operand: Operand) -> int:
        """Units of the initial window."""
        return self.initial // self.unit(operand)

    def ring(self, operand: Operand) -> int:
        """Places for low halves of the local window: units that it can touch, a power of two."""
        touched = self.local // self.unit(operand) + 1
        return 1 << (touched - 1).bit_length()

    def low_slots(self, operand: Operand) -> int:
        """Places for low halves in all."""
        return self.initial_slots(operand) + self.ring(operand)

    def low_slot(self, operand: Operand, unit: int) -> int:
        """Where the low halves of a unit of tokens lie."""
        first = self.initial_slots(operand)
        return unit if unit < first else first + unit % self.ring(operand)

    def has_low(self, operand: Operand, unit: int, tokens: int) -> bool:
        """Whether a unit has 8 bits when ``tokens`` are cached."""
        size = self.unit(operand)
        return unit < self.initial_slots(operand) or (unit + 1) * size + self.local > tokens

    def depth(self, memory: Memory) -> int:
        """Rows of the memory."""
        if memory is Memory.FP16:
            return self.halves_rows
        return self.operand_rows if memory >= Memory.OPERANDS else self.activation_rows

    def row_shape(self, memory: int) -> tuple[int, ...]:
        memory = Memory(memory)  # from an instruction's field
        across = self.columns if memory.takes_beats else self.rows
        if memory in (Memory.EXPONENTS, Memory.OPERAND_EXPONENTS, Memory.SCALES):
            return (across,)
        return across, self.word_values if memory is Memory.FP16 else self.group

    def element_bits(self, memory: int) -> int:
        return Memory(memory).element_bits


@dataclass(frozen=True, kw_only=True)
class HarmoniaAxiParams(MachineAxiPorts, HarmoniaParams):
    """Harmonia with AXI ports."""

    block: ClassVar[str] = "harmonia_axi"
    summary: ClassVar[str] = "Harmonia accelerator with AXI4 and AXI4-Lite ports"
    MACHINE: ClassVar = HarmoniaParams


HARMONIA_MACHINE_BLOCKS: tuple[type[BlockParams], ...] = (HarmoniaParams,)
