"""Common to the programmable accelerators: instruction words, vector operands, registers, ports.

An accelerator has an instruction memory, 64-bit registers and counters on a small port, and a
memory port that moves lines. Its own parameter file declares its instructions.
"""

from enum import IntEnum
from math import prod
from typing import Annotated, Any, ClassVar

from tilewright.golden.params.block import BlockParams, Field, one_of, require, stream, within
from tilewright.golden.params.describe import comments
from tilewright.golden.params.formats import FP16
from tilewright.golden.params.registers import WORD, RegisterMap, bytes_of, declared
from tilewright.golden.params.registers import Register as Entry
from tilewright.golden.params.vector import OPERATION_BITS, VectorParams

# Instructions: the opcode lowest, then its fields; what is above the last one does not matter.

INSTRUCTION_BITS = 128
OPCODE_BITS = 4
ROW_FIELD = 16
SIZE_FIELD = 16
LINE_FIELD = 42
KIND_BITS = 2
EXPONENT_BYTE = 8  # a shared exponent's place in its memory; 5 bits of it are used
REGIONS = (1, 2, 4, 8)  # parts into which on-chip memories can be divided
SCALARS = 8  # scalar registers, each with one fp16 value per row of the tile

# Counted loops. A loop adds its strides to the index registers in each iteration; an instruction
# may add one of them to each of its addresses.

INDICES = 3  # index registers, i1 and so on; 0 in an instruction: none
INDEX_BITS = 2
INDEX_SUFFIX = "_index"  # the field that names the index register of a field with this ending
STRIDE_BITS = 28  # signed
LOOP_LEVELS = 3  # loops within each other
NUMBER_BITS = 32  # of an instruction's number in a program

Depth = Annotated[int, within(16, 1 << ROW_FIELD)]  # rows of a memory: an instruction names each

LOOP_FIELDS = (
    Field("count", 24),  # iterations
    Field("body", 12),  # instructions after the loop that it repeats
    *(Field(f"stride{k}", STRIDE_BITS) for k in range(1, INDICES + 1)),
)


def indexed(fields: tuple[Field, ...], *addresses: str) -> tuple[Field, ...]:
    """``fields``, followed by the index registers of those that are ``addresses``."""
    return (*fields, *(Field(f"{name}{INDEX_SUFFIX}", INDEX_BITS) for name in addresses))


class Kind(IntEnum):
    """The content of an operand field of a vector instruction."""

    TENSOR = 0  # the row of an fp16 tensor
    SCALAR = 1  # the number of a scalar register: a value per row of the tile
    IMMEDIATE = 2  # an fp16 value


VECTOR_FIELDS = (
    Field("operation", OPERATION_BITS),
    Field("a_kind", KIND_BITS),
    Field("b_kind", KIND_BITS),
    Field("a", ROW_FIELD),
    Field("b", ROW_FIELD),
    Field("destination", ROW_FIELD),  # a row, or a scalar register
    Field("elements", SIZE_FIELD),  # of a token
    Field("scale", FP16.bits),  # of sums
)

VECTOR_ADDRESSES = ("a", "b", "destination")

# Registers.

REGISTER_BITS = 64
REGISTER_SPACE_BITS = 16
INSTRUCTION_BASE = 1 << (REGISTER_SPACE_BITS - 1)  # then 16 bytes an instruction, low half first
MOST_INSTRUCTIONS = ((1 << REGISTER_SPACE_BITS) - INSTRUCTION_BASE) // (INSTRUCTION_BITS // 8)


class Register(IntEnum):
    """Byte offsets of the 64-bit registers."""

    IDENTITY = 0x00  # sizes; scalars are the scalar registers
    CONTROL = 0x08  # clears counters and status, starts a program
    STATUS = 0x10  # how the program is doing
    EVENTS = 0x18  # sticky: a value saturated in compression
    LIMIT = 0x20  # cycles without progress after which the watchdog stops a program; 0: never
    INTERRUPT = 0x28  # behind AXI: a program ended, and it ended with an error
    INTERRUPT_ENABLE = 0x30  # behind AXI: bits of INTERRUPT that raise irq
    COUNTERS = 0x80  # 8 bytes each, in the order of the accelerator's counters


COUNTER_BITS = 48
ERROR_BITS = 4
STATUS_FIELDS = (
    Field("busy", 1),
    Field("done", 1),
    Field("error", ERROR_BITS),
    Field("instruction", NUMBER_BITS),  # the one at work, or where the program ended
)
CONTROL_FIELDS = (
    Field("start", 1),
    Field("stream", 1),  # instructions come from external memory, not the instruction memory
    Field("reserved", 6),
    Field("line", LINE_FIELD),  # of external memory, where a stream begins
)
LIMIT_BITS = 32
LIMIT = 1 << 20  # of the watchdog after a reset
CODE_TAG_BITS = 3
CODE_LINES = 1 << CODE_TAG_BITS  # lines of a stream requested and not yet in instruction memory


class Error(IntEnum):
    """Why a program stopped; the first that applies, in this order."""

    NONE = 0  # it halted
    OPCODE = 1  # unknown
    OPERAND = 2  # an unknown choice (operation, kind, memory, ...), or two that do not go together
    SIZE = 3  # nothing to do, such as zero rows or elements, or more than there can be
    MANTISSA = 4  # where mantissas have a variable length: above 16 bits, or not configured
    ADDRESS = 5  # beyond the end of a memory or of the scalar registers
    END = 6  # the instruction memory ended without a halt
    BUS = 7  # the external memory answered with an error; later instructions may have run
    LOOP = 8  # within too many others, or ends after the one around it
    WATCHDOG = 9  # too many cycles without progress


class UnitOfWork(IntEnum):
    """Units that instructions run on; each has at most one at a time, all of them together."""

    LOAD = 0
    STORE = 1
    MATRIX = 2
    VECTOR = 3
    CONVERT = 4  # of accelerators whose conversions have a unit of their own


class MachineMemory(IntEnum):
    """Base of the memories of an accelerator's loads and stores."""

    @property
    def buffer(self) -> "MachineMemory":
        """The memory that this one shares regions with."""
        raise NotImplementedError

    @property
    def takes_beats(self) -> bool:
        """Whether a load may write several of its rows in a cycle."""
        raise NotImplementedError

    @property
    def stores(self) -> bool:
        """Whether it can be stored."""
        raise NotImplementedError


class MachineParams(BlockParams):
    """Base of an accelerator's parameters: its ports and their payloads.

    External memory has ``memory_channels`` channels of lines of ``line_bytes`` bytes: line k lies
    in channel k mod ``memory_channels``. A *beat* is a line of every channel, which a cycle can
    transfer. Up to ``dma_lines`` requests are outstanding in every channel. Byte addresses have
    ``address_bits`` bits.

    Up to ``loads`` loads are under way: one is issued when all lines of those before have been
    asked for. Their rows are written in the order of the loads.

    Every on-chip memory is divided into ``regions`` with ports of their own; a running instruction
    holds those that it touches.
    """

    counters: ClassVar[type[IntEnum]]
    errors: ClassVar[tuple[IntEnum, ...]]

    # Fields of every accelerator, which declares them with values of its own.
    rows: int
    row_groups: int
    columns: int
    group: int
    regions: Annotated[int, one_of(*REGIONS)]
    instructions: Annotated[int, within(2, MOST_INSTRUCTIONS)]
    memory_channels: Annotated[int, within(1, 64)]
    line_bytes: Annotated[int, within(16, 1024)]
    dma_lines: Annotated[int, within(2, 64)]
    address_bits: Annotated[int, within(16, 48)]
    loads: Annotated[int, one_of(1, 2, 4)]
    pipelined: bool

    inputs = (
        (
            stream("mem{}_response", tag="tag_bits", error=1, data="line_bits")
            + stream("mem{}_written", error=1)
        ).times("memory_channels")
        + stream("code_response", tag=CODE_TAG_BITS, error=1, data="line_bits")
        + stream("mmio_request", address=REGISTER_SPACE_BITS, write=1, data=REGISTER_BITS)
    )
    outputs = (
        (
            stream("mem{}_request", line="channel_line_bits", tag="tag_bits")
            + stream("mem{}_write", line="channel_line_bits", data="line_bits")
        ).times("memory_channels")
        + stream("code_request", line="line_address_bits", tag=CODE_TAG_BITS)
        + stream("mmio_response", data=REGISTER_BITS, error=1)
    )

    @property
    def registers(self) -> RegisterMap:
        limit, event = Field("cycles", LIMIT_BITS), Field("saturated", 1)
        count = (Field("count", COUNTER_BITS),)
        text = "instructions, low half first; refused while a program runs"
        halves = self.instructions * INSTRUCTION_BITS // REGISTER_BITS
        return (
            declared(Register.IDENTITY, bytes_of("rows", "columns", "group", "scalars")),
            declared(Register.CONTROL, (), *CONTROL_FIELDS),
            declared(Register.STATUS, STATUS_FIELDS, codes=self.errors),
            declared(Register.EVENTS, (event,), event, clears=True),
            declared(Register.LIMIT, (limit,), limit, reset=LIMIT),
            *(
                Entry(f"COUNTER_{code.name}", Register.COUNTERS + 8 * code, meaning, count)
                for code, meaning in zip(
                    self.counters, comments(self.counters).values(), strict=True
                )
            ),
            Entry("INSTRUCTIONS", INSTRUCTION_BASE, text, WORD, WORD, count=halves),
        )

    @property
    def block_tiles(self) -> int:
        """Tiles of columns of a block of weights, of which every group's rows lie together."""
        return self.row_groups

    @property
    def group_rows(self) -> int:
        """Rows of a row group."""
        return self.rows // self.row_groups

    def whole_tiles(self, tiles: int) -> int:
        """Tiles of weights with those that fill up the last block."""
        return -(-tiles // self.block_tiles) * self.block_tiles

    @property
    def start_cycles(self) -> int:
        """Cycles from the one that issues an instruction to the one in which its unit starts.

        The decision depends on the state of all units; for FPGAs it passes a register.
        """
        return 1 if self.pipelined else 0

    @property
    def measure_cycles(self) -> int:
        """Cycles in which sizes and rows of an instruction are computed.

        For FPGAs a cycle each for parts of sizes, products, sums, and the error with the regions.
        """
        return 4 if self.pipelined else 1

    @property
    def store_pause(self) -> int:
        """Cycles between two rows of a store: for FPGAs a row passes a register before the line."""
        return 2 if self.pipelined else 0

    @property
    def control_cycles(self) -> int:
        """Cycles of an instruction in the sequencer: fetch, decode, measure, check."""
        return 3 + self.measure_cycles

    def check_ports(self) -> None:
        """Refuse an instruction memory or a memory port that cannot be built."""
        for name in ("memory_channels", "line_bytes"):
            size = getattr(self, name)
            require(size & (size - 1) == 0, f"{name} must be a power of two, not {size!r}")
        require(self.loads == 1 or not self.pipelined, "a pipelined accelerator has one load")
        least = 2 * self.line_instructions
        require(
            self.instructions >= least,
            f"instructions must be at least {least}, two lines of them, not {self.instructions!r}",
        )

    @property
    def line_instructions(self) -> int:
        """Instructions that a line of external memory holds."""
        return self.line_bits // INSTRUCTION_BITS

    @property
    def code_ring(self) -> int:
        """Instructions of a stream that the instruction memory holds: a power of two."""
        return 1 << (self.instructions.bit_length() - 1)

    @property
    def longest_loop(self) -> int:
        """Instructions of a loop's body: the ring holds it and the next line to be fetched."""
        return self.code_ring - self.line_instructions

    def region_rows(self, memory: Any) -> int:
        """Rows of a region of the memory's buffer: a power of two, and whole beats."""
        size = 1 << (self.depth(memory) - 1).bit_length()
        beats = [self.ways(m) for m in type(memory) if m.buffer is memory.buffer]
        return max(2, size // self.regions, *beats)

    def region_depths(self, memory: Any) -> list[int]:
        """Rows of every region of the memory; the last may have fewer."""
        depth, size = self.depth(memory), self.region_rows(memory)
        return [min(size, depth - first) for first in range(0, depth, size)]

    @property
    def vector(self) -> VectorParams:
        """The accelerator's vector unit."""
        raise NotImplementedError

    def depth(self, memory: Any) -> int:
        """Rows of one of the accelerator's memories."""
        raise NotImplementedError

    def row_shape(self, memory: Any) -> tuple[int, ...]:
        """Elements of a row: (banks or columns), or (banks or columns, elements)."""
        raise NotImplementedError

    def element_bits(self, memory: Any) -> int:
        """Bits of an element, as it lies in external memory."""
        raise NotImplementedError

    def row_bits(self, memory: Any) -> int:
        """Bits of a row in external memory."""
        return prod(self.row_shape(memory)) * self.element_bits(memory)

    def lines(self, memory: Any, rows: int) -> int:
        """Lines that ``rows`` rows take in external memory."""
        return -(-rows * self.row_bits(memory) // self.line_bits)

    def beat_line(self, line: int) -> int:
        """The first line from ``line`` on that begins a beat."""
        return -(-line // self.memory_channels) * self.memory_channels

    def beat_rows(self, memory: Any) -> int:
        """Rows of ``memory`` that a load writes in a cycle if it takes whole beats, else 0.

        A memory takes beats if it may, and if a beat holds 1, 2, 4 ... of its rows.
        """
        rows, rest = divmod(self.beat_bits, self.row_bits(memory))
        takes = self.takes_beats(memory) and rest == 0 and rows & (rows - 1) == 0
        return rows if takes else 0

    def takes_beats(self, memory: Any) -> bool:
        """Whether a load may write several rows of the memory in a cycle."""
        return bool(memory.takes_beats)

    def ways(self, memory: Any) -> int:
        """Rows of ``memory`` in a word of its banks, so that a beat is written at once."""
        return max(1, self.beat_rows(memory))

    @property
    def line_bits(self) -> int:
        return 8 * self.line_bytes

    @property
    def beat_bits(self) -> int:
        return self.memory_channels * self.line_bits

    @property
    def channel_bits(self) -> int:
        """Bits of a line's number that name its channel."""
        return (self.memory_channels - 1).bit_length()

    @property
    def line_address_bits(self) -> int:
        """Bits of a line's number in all channels."""
        return self.address_bits - (self.line_bytes - 1).bit_length()

    @property
    def channel_line_bits(self) -> int:
        """Bits of a line's number in its channel."""
        return self.line_address_bits - self.channel_bits

    @property
    def tag_bits(self) -> int:
        return (self.dma_lines - 1).bit_length()

    def memory_port(self, name: str, channel: int) -> str:
        """The name of a channel's port: ``request``, ``response``, ``write`` or ``written``."""
        return f"mem{channel}_{name}"
