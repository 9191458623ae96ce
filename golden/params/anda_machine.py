"""The Anda accelerator: sizes, instruction set, registers, ports.

A *row* is an address of a buffer. One row of the activation buffer is a word of ``group`` bits in
each of its ``rows`` banks, one bank for every row of the matrix unit, so that a *token tile*, that
is ``rows`` tokens, is worked on at a time. A group of a token takes 1 + M rows in Anda format and
16 rows in fp16, ``group / 16`` values a row; elements beyond the last are zero.
"""

from dataclasses import dataclass
from enum import IntEnum
from functools import cached_property
from typing import Annotated, ClassVar

from tilewright.golden.params.anda import MANTISSA_FIELD_BITS, AndaCompressorParams, AndaMxuParams
from tilewright.golden.params.block import BlockParams, Field, Untimed, one_of, require
from tilewright.golden.params.formats import FP16
from tilewright.golden.params.machine import (
    EXPONENT_BYTE,
    LINE_FIELD,
    LOOP_FIELDS,
    ROW_FIELD,
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

# Instruction set.

MEMORY_BITS = 3
MANTISSA_BITS = MANTISSA_FIELD_BITS
RESULTS_FIELD = 12  # sums of one vector instruction
STEP_FIELD = 8  # rows from one to the next
# Fields of dots and weigh alone.
ATTENTION_FIELDS = (
    Field("results", RESULTS_FIELD),
    Field("step", STEP_FIELD),  # of one sum: of b in dots, of a in weigh
    Field("pitch", STEP_FIELD),  # of a, from one sum to the next
)


class Opcode(IntEnum):
    """The instructions; 0, the content of an empty memory, is none."""

    HALT = 1  # the program is done, when all units are
    CONFIGURE = 2  # formats of the instructions that follow
    LOAD = 3  # lines of external memory to rows of a buffer
    STORE = 4  # rows of a buffer to lines of external memory
    WAIT = 5  # until all units are done
    GEMM = 6  # a token tile times weights
    VECTOR = 7  # one operation of the vector unit on a token tile
    COMPRESS = 8  # fp16 to Anda
    LOOP = 9  # the next instructions, several times
    SHARED_GEMM = 10  # few tokens times weights: row groups take tiles of columns of their own


SPAN_FIELD = 3


class Memory(MachineMemory):
    """The memories of loads and stores."""

    ACTIVATIONS = 0
    EXPONENTS = 1  # bytes, the row of the group's sign words
    WEIGHTS = 2
    SCALES = 3
    BROADCAST = 4  # load only: one word, written to every bank of the activation buffer

    @property
    def buffer(self) -> "Memory":
        return self if self.takes_beats else Memory.ACTIVATIONS

    @property
    def takes_beats(self) -> bool:
        return self in (Memory.WEIGHTS, Memory.SCALES)

    @property
    def stores(self) -> bool:
        return self in (Memory.ACTIVATIONS, Memory.EXPONENTS)


_MOVE = indexed(
    (
        Field("memory", MEMORY_BITS),
        Field("stride", 8),  # rows from one to the next
        Field("row", ROW_FIELD),
        Field("rows", SIZE_FIELD),
        Field("line", LINE_FIELD),  # of external memory
    ),
    *("row", "line"),
)

_GEMM = indexed(
    (
        Field("source", ROW_FIELD),
        Field("weights", ROW_FIELD),
        Field("scales", ROW_FIELD),
        Field("destination", ROW_FIELD),
        Field("inputs", SIZE_FIELD),  # elements of a token
        Field("outputs", SIZE_FIELD),
    ),
    *("source", "weights", "scales", "destination"),
)

# After the opcode, the first field lowest; bits above the last one are ignored.
INSTRUCTION_FIELDS: dict[Opcode, tuple[Field, ...]] = {
    Opcode.HALT: (),
    Opcode.CONFIGURE: (
        Field("source_mantissa", MANTISSA_BITS),  # M of what a gemm reads
        Field("result_mantissa", MANTISSA_BITS),  # M of what gemm and compress write; 0: fp16
    ),
    Opcode.LOAD: _MOVE,
    Opcode.STORE: _MOVE,
    Opcode.WAIT: (),
    Opcode.GEMM: _GEMM,
    Opcode.VECTOR: (
        *indexed((*VECTOR_FIELDS, *ATTENTION_FIELDS), *VECTOR_ADDRESSES),
        # With row groups, in dots and weigh: a is that of one bank after another.
        Field("across", 1),
    ),
    Opcode.COMPRESS: indexed(
        (
            Field("source", ROW_FIELD),
            Field("destination", ROW_FIELD),
            Field("elements", SIZE_FIELD),
        ),
        *("source", "destination"),
    ),
    Opcode.LOOP: LOOP_FIELDS,
    Opcode.SHARED_GEMM: (
        *_GEMM,
        Field("span", SPAN_FIELD),  # 2^span rows, of as many tokens, share a tile of columns
        Field("continues", 1),  # sums go on from those that the gemm before keeps
        Field("keeps", 1),  # sums stay in the array; nothing is written
    ),
}


ERRORS = tuple(Error)  # with which a program can stop
FP16_ROWS = FP16.bits  # rows of one group in fp16: as many as a value has bits


class Counter(IntEnum):
    """Counters of a running program."""

    CYCLES = 0  # from the start to the halt
    INSTRUCTIONS = 1  # issued
    MATRIX_BUSY = 2  # planes that the matrix unit took
    MATRIX_WAITS = 3  # a plane was there, the matrix unit not ready
    RESULT_WAITS = 4  # a result was there, its place not free
    CONTROL = 5  # cycles that fetched, decoded and checked
    LOAD = 6  # cycles in which the unit works on a load; GEMM to STORE likewise
    GEMM = 7
    VECTOR = 8  # also of compress
    LINES_READ = 9
    LINES_WRITTEN = 10
    GROUPS_COMPRESSED = 11
    STORE = 12


_SMALL = {
    "rows": 2,
    "columns": 2,
    "group": 16,
    "activation_rows": 1024,
    "weight_rows": 512,
    "instructions": 128,
    "memory_channels": 2,
    "line_bytes": 64,
    "dma_lines": 8,
}


def _decode(rows: int) -> dict[str, int]:
    """One token at a time: every row of the array takes weights of its own."""
    return {"row_groups": rows, "loads": 4, "beat_words": 4}


@dataclass(frozen=True, kw_only=True)
class AndaParams(MachineParams):
    """The accelerator of the paper's Figure 13 with its buffers of Table III.

    Programs, registers and the layouts of tensors: docs/anda-system.md.
    """

    counters: ClassVar = Counter
    errors: ClassVar = ERRORS
    block: ClassVar[str] = "anda"
    summary: ClassVar[str] = "Anda accelerator: matrix unit, vector unit, buffers, programs"
    PRESETS: ClassVar = {
        "paper": {},
        "small": _SMALL,
        # One narrow port: two wide ones take a fifth of all LUTs, a third of all registers.
        "fpga": {**_SMALL, "memory_channels": 1, "line_bytes": 16, "pipelined": True},
        "decode": _decode(16),
        "small_decode": {
            **_SMALL,
            **{"rows": 8, "columns": 8, "memory_channels": 8, "line_bytes": 16},
            **_decode(8),
        },
    }

    rows: int = 16  # of the matrix unit: tokens of a tile; also lanes of the compressor
    # Into which a shared gemm divides the rows: each takes other outputs, where tokens are few.
    row_groups: int = 1
    columns: int = 16
    group: Annotated[int, one_of(16, 32, 64)] = 64
    weight_bits: int = 4
    planes_per_beat: int = 2  # weight planes that one row of the weight buffer holds
    activation_rows: Depth = 8192  # 1 MB, and 0.125 MB of exponents
    weight_rows: Depth = 4096  # 1 MB
    regions: int = 4  # of every buffer: units work at the same time in different ones
    instructions: int = 1024
    memory_channels: int = 8  # of external memory, as an HBM2 stack has
    line_bytes: int = 128  # of a channel in a cycle, of which HBM2 brings some 110
    dma_lines: int = 64  # outstanding requests of a channel: 150 ns and more
    address_bits: int = 48
    loads: int = 1  # under way
    # Words of every bank in a beat of the vector unit.
    beat_words: Annotated[int, one_of(1, 2, 4)] = 1
    pipelined: bool = False  # for FPGAs: registers in matrix and vector unit, at starts

    timing = Untimed("a program's cycles: see tilewright.golden.anda_machine.cycles")

    def __post_init__(self) -> None:
        super().__post_init__()
        _ = self.mxu, self.compressor, self.vector  # these have rules of their own
        require(
            self.columns * FP16.bits % self.group == 0,
            f"columns must fill whole words of {self.group} bits, not {self.columns!r}",
        )
        require(
            self.group % self.columns == 0,
            f"columns must divide the group of {self.group}, not be {self.columns!r}",
        )
        self.check_ports()
        require(
            self.row_groups in (1, self.rows),
            f"row_groups must be 1 or {self.rows}, the rows, not {self.row_groups!r}",
        )
        require(
            self.beat_words == 1 or self.ways(Memory.ACTIVATIONS) % self.beat_words == 0,
            f"{self.beat_words} words of a beat do not divide what a load writes at once",
        )
        if self.row_groups > 1:  # a word of weights holds whole tiles, a block whole words
            whole = 0 < self.beat_tiles <= self.block_tiles <= self.row_groups
            require(
                whole and self.ways(Memory.SCALES) >= self.beat_tiles,
                f"row_groups need a beat of 1..{self.block_tiles} tiles, not {self.beat_tiles}",
            )

    def takes_beats(self, memory: Memory) -> bool:
        # The cache of a lone token streams past the vector unit, a beat of which reads its rows.
        own = max(self.row_groups, self.beat_words) > 1 and memory is Memory.ACTIVATIONS
        return own or super().takes_beats(memory)

    @property
    def beat_tiles(self) -> int:
        """Tiles of columns whose weights of a group a shared gemm takes in a cycle."""
        rows = self.weight_bits // self.planes_per_beat
        return 1 if self.row_groups == 1 else self.ways(Memory.WEIGHTS) // rows

    @property
    def block_tiles(self) -> int:
        """Tiles of columns of a block of weights: with row groups those of a group of outputs."""
        return 1 if self.row_groups == 1 else self.group // self.columns

    @property
    def opcodes(self) -> tuple[Opcode, ...]:
        """The instructions that it has."""
        return tuple(x for x in Opcode if x is not Opcode.SHARED_GEMM or self.row_groups > 1)

    @property
    def spans(self) -> range:
        """Logarithms of the numbers of tokens of a shared gemm: it takes whole blocks."""
        return range((self.row_groups // self.block_tiles).bit_length())

    @cached_property  # asked for with every instruction of a program
    def mxu(self) -> AndaMxuParams:
        return self.shared(AndaMxuParams)

    @property
    def compressor(self) -> AndaCompressorParams:
        return AndaCompressorParams(lanes=self.rows, group=self.group)

    @cached_property
    def vector(self) -> VectorParams:
        beat_cycles = PIPELINED_BEAT_CYCLES if self.pipelined else 1
        return VectorParams(
            rows=self.rows,
            group=self.group * self.beat_words,
            attends=True,
            beat_cycles=beat_cycles,
        )

    @property
    def group_beats(self) -> int:
        """Beats of the vector unit for a group."""
        return FP16_ROWS // self.beat_words

    @property
    def scale_rows(self) -> int:
        """One row of scales for every group of weights that fits."""
        return self.weight_rows // self.mxu.weight_beats

    @property
    def tile_rows(self) -> int:
        """Rows of fp16 results that one tile of columns fills."""
        return self.columns * FP16.bits // self.group

    def depth(self, memory: Memory) -> int:
        """Rows of the memory."""
        return {Memory.WEIGHTS: self.weight_rows, Memory.SCALES: self.scale_rows}.get(
            memory, self.activation_rows
        )

    def row_shape(self, memory: Memory) -> tuple[int, ...]:
        return {
            Memory.WEIGHTS: (self.planes_per_beat * self.columns,),
            Memory.SCALES: (self.columns,),
            Memory.BROADCAST: (1,),
        }.get(memory, (self.rows,))

    def element_bits(self, memory: Memory) -> int:
        return {Memory.EXPONENTS: EXPONENT_BYTE, Memory.SCALES: FP16.bits}.get(memory, self.group)


def group_rows(mantissa: int) -> int:
    """Rows of a group with ``mantissa`` bits, or in fp16 for 0."""
    return 1 + mantissa if mantissa else FP16_ROWS


@dataclass(frozen=True)
class Mantissas:
    """Bits of the activations of a layer's products: query, key and value; output; gate and up;
    down."""

    qkv: int = 8
    o: int = 5
    u: int = 7
    d: int = 6


@dataclass(frozen=True, kw_only=True)
class AndaAxiParams(MachineAxiPorts, AndaParams):
    """Anda with AXI ports."""

    block: ClassVar[str] = "anda_axi"
    summary: ClassVar[str] = "Anda accelerator with AXI4 and AXI4-Lite ports"
    MACHINE: ClassVar = AndaParams


ANDA_MACHINE_BLOCKS: tuple[type[BlockParams], ...] = (AndaParams,)
