"""DECA: the decompressor's parameters, its tile configuration and its register map.

Sizes are Table 3 of the DECA paper (MICRO 2025) by default. A *tile* is 16 rows of 64 bytes: 512
bf16 values, or 1024 int8 values. A *chunk* is what one vector operation gives: ``lanes`` elements.
"""

from dataclasses import dataclass
from enum import Enum, IntEnum
from typing import Annotated, ClassVar

from tilewright.golden.params.arith import AMX_ROW_BYTES
from tilewright.golden.params.block import (
    BlockParams,
    Field,
    Limit,
    Limited,
    Streams,
    Untimed,
    Wire,
    axi_lite,
    handshake,
    one_of,
    pack_fields,
    require,
    stream,
    within,
)
from tilewright.golden.params.registers import (
    REGISTER_BYTES,
    WORD,
    RegisterGroup,
    RegisterMap,
    bytes_of,
    declared,
    interrupt_registers,
)
from tilewright.golden.params.registers import Register as Entry

TILE_ROWS = 16
ROW_BYTES = AMX_ROW_BYTES
TILE_BYTES = TILE_ROWS * ROW_BYTES
CODE_BITS = (1, 2, 3, 4, 5, 6, 7, 8, 16)  # 16: the elements themselves, no lookup
LUT_ENTRIES = 256
SUB_LUTS = 4  # per big LUT, one read port each


class ScaleKind(Enum):
    """How the scale of a group is stored."""

    NONE = "none"
    E8M0 = "e8m0"
    BF16 = "bf16"

    @property
    def code(self) -> int:
        """Value of the configuration register's field."""
        return list(ScaleKind).index(self)

    @property
    def bytes(self) -> int:
        return self.code  # 0, 1, 2: nothing, a byte, two bytes


class TileError(IntEnum):
    """How a tile ended; readable by the core."""

    OK = 0  # its rows can be read
    FORMAT = 1  # unknown or contradictory configuration
    MASK_LENGTH = 2  # bitmask length disagrees with the tile
    SCALE_LENGTH = 3  # scale count disagrees with the tile
    DATA_LENGTH = 4  # data length disagrees with the bitmask, or with the dense tile
    BUS = 5  # the memory answered a line with an error


ERROR_BITS = 3  # of a TileError


@dataclass(frozen=True, kw_only=True)
class TileConfig(Limited):
    """The format of a tile's bytes: the configuration register in readable form."""

    code_bits: Annotated[int, Limit("1..8 or 16", lambda bits: bits in CODE_BITS)] = 8
    sparse: bool = False
    scale: ScaleKind = ScaleKind.NONE
    group: int = 32  # elements of the dense tile that share a scale
    int8: bool = False

    def __post_init__(self) -> None:
        super().__post_init__()
        require(
            self.group in {1 << k for k in range(10)},
            f"group must be a power of two of 1..512, not {self.group!r}",
        )
        if self.int8:
            require(self.scale is ScaleKind.NONE, "int8 tiles take no scales")
            require(self.code_bits != 16, "int8 tiles take codes of 1..8 bits, not 16")

    @property
    def elements(self) -> int:
        return TILE_BYTES if self.int8 else TILE_BYTES // 2

    @property
    def mask_bytes(self) -> int:
        return self.elements // 8 if self.sparse else 0

    @property
    def scale_bytes(self) -> int:
        return self.elements // self.group * self.scale.bytes

    def data_bytes(self, nonzeros: int) -> int:
        """Bytes of ``nonzeros`` packed codes."""
        return -(-nonzeros * self.code_bits // 8)

    def encode(self) -> int:
        """Bits of the configuration register (fields of ``CONFIG_FIELDS``)."""
        values = {
            "code_bits": self.code_bits,
            "sparse": int(self.sparse),
            "scale": self.scale.code,
            "group_log2": self.group.bit_length() - 1,
            "int8": int(self.int8),
        }
        return pack_fields(CONFIG_FIELDS, values)


CONFIG_FIELDS = (
    Field("code_bits", 5),
    Field("sparse", 1),
    Field("scale", 2),
    Field("group_log2", 4),
    Field("int8", 1),
)
CONFIG_BITS = sum(f.bits for f in CONFIG_FIELDS)

STRUCTURES = ("mask", "scale", "data")  # in the order a loader asks for them
LENGTH_BITS = TILE_BYTES.bit_length()  # bytes of one structure: 0..1024
ROW_BITS = (TILE_ROWS - 1).bit_length()
COMMAND = {
    f"{name}_{part}": bits
    for name in STRUCTURES
    for part, bits in (("base", "address_bits"), ("length", LENGTH_BITS))
}


class Register(IntEnum):
    """Byte offsets of the 64-bit registers; a loader's own are ``LOADER + k * LOADER_STRIDE``."""

    IDENTITY = 0x000  # sizes
    CONFIG = 0x008  # tile configuration, taken with each tile command
    PREFETCH = 0x010  # tiles ahead, 0 is off
    EVENTS = 0x018  # sticky: an answer to no request
    INTERRUPT = 0x020  # behind AXI: a tile ended, and it ended with an error
    INTERRUPT_ENABLE = 0x028  # behind AXI: bits of INTERRUPT that raise irq
    LOADER = 0x040  # registers of the loaders
    LUT = 0x800  # entries of the table, a 64-bit word each


class LoaderRegister(IntEnum):
    """Byte offsets inside one loader's registers."""

    MASK_BASE = 0x00
    MASK_LENGTH = 0x08
    SCALE_BASE = 0x10
    SCALE_LENGTH = 0x18
    DATA_BASE = 0x20
    DATA_LENGTH = 0x28
    GO = 0x30  # a write starts the tile; refused while the loader still has a command to take
    STATUS = 0x38  # how the tile is doing; a write squashes it or takes its result


LOADER_STRIDE = 0x40
PREFETCH_BITS = 4
REGISTER_BITS = 64
REGISTER_SPACE_BITS = 12
AXI_TOUT = 1 << REGISTER_SPACE_BITS  # behind AXI the rows of TOut follow the registers
AXI_ADDRESS_BITS = REGISTER_SPACE_BITS + 1

TEPL_ID_BITS = 6  # numbers TEPLs in program order; half of the numbers may be in flight
TILE_REGISTER_BITS = 3  # AMX has eight tile registers; a core with a longer queue has more

STATUS_FIELDS = (
    Field("busy", 1),  # a tile is between its command and its result
    Field("done", 1),  # a result waits
    Field("error", ERROR_BITS),  # TileError of that result
)


@dataclass(frozen=True, kw_only=True)
class DecaParams(BlockParams):
    """One DECA processing element with its two loaders."""

    block: ClassVar[str] = "deca"
    summary: ClassVar[str] = "DECA processing element: compressed tiles to dense tiles"
    PRESETS: ClassVar = {
        "paper": {},
        "small": {"lanes": 8, "luts": 4},
        "large": {"lanes": 64, "luts": 64},
        "as_published": {"port_commands": 1, "prefetchers": 2},
    }

    lanes: Annotated[int, one_of(8, 16, 32, 64)] = 32  # W: elements of one vector operation
    luts: int = 8  # L: big lookup tables
    sqq_lines: Annotated[int, within(2, 64)] = 32  # SQQ: 2 KB of 64-byte lines per loader
    mask_queue_lines: Annotated[int, within(1, 8)] = 1  # 64 B per loader
    scale_queue_lines: Annotated[int, within(1, 8)] = 1  # 64 B per loader
    cam_entries: Annotated[int, within(2, 64)] = 32  # outstanding line requests of one loader
    address_bits: Annotated[int, within(16, 64)] = 48  # virtual byte address
    tepl_entries: Annotated[int, within(2, 64)] = 8
    port_commands: Annotated[int, within(1, 8)] = 3  # TEPLs at a loader: fetched, leaving, in TOut
    prefetchers: Annotated[int, one_of(1, 2)] = 1  # one for both loaders, or one for each

    loaders: ClassVar[int] = 2
    line_bytes: ClassVar[int] = ROW_BYTES
    max_prefetch_degree: ClassVar[int] = 15
    max_prefetch_stride: ClassVar[int] = 2 * TILE_BYTES  # a longer step between tiles is a jump

    commands = stream("command{}", **COMMAND).times("loaders")
    memory_inputs = stream("mem_response", tag="tag_bits", error=1, data="line_bits") + stream(
        "mmio_request", address=REGISTER_SPACE_BITS, write=1, data=REGISTER_BITS
    )
    memory_outputs = stream(
        "mem_request", line="line_address_bits", tag="tag_bits", prefetch=1
    ) + stream("mmio_response", data=REGISTER_BITS, error=1)
    inputs = memory_inputs + commands + stream("read_request", tout=1, row=ROW_BITS)
    outputs = (
        memory_outputs
        + stream("done{}", error=ERROR_BITS).times("loaders")
        + stream("read_response", data="line_bits", full=1)
    )
    # From a core to the TEPL unit, and back: rows for its tile registers, ends of TEPLs.
    tepl_inputs = (
        stream("dispatch", id=TEPL_ID_BITS, register="tile_register_bits", ready=1, **COMMAND)
        + stream("wakeup", id=TEPL_ID_BITS, **COMMAND)
        + stream("flush", id=TEPL_ID_BITS)
    )
    tepl_outputs = stream(
        "tile_write", register="tile_register_bits", row=ROW_BITS, data="line_bits"
    ) + stream("complete", id=TEPL_ID_BITS, error=ERROR_BITS)
    timing = Untimed("a tile's cycles depend on its bits: see tilewright.golden.deca.tile_cycles")

    def __post_init__(self) -> None:
        super().__post_init__()
        require(
            1 <= self.luts <= self.lanes, f"luts must be 1..{self.lanes} (lanes), not {self.luts!r}"
        )

    @property
    def line_bits(self) -> int:
        return 8 * self.line_bytes

    @property
    def line_address_bits(self) -> int:
        return self.address_bits - (self.line_bytes - 1).bit_length()

    @property
    def tag_bits(self) -> int:
        """Loader, CAM entry, and a generation bit that tells a late answer from a new one."""
        return 2 + (self.cam_entries - 1).bit_length()

    @property
    def tiles_per_degree(self) -> int:
        """Tiles that a prefetcher looks ahead for each one of its degree."""
        return self.loaders // self.prefetchers

    def lookups(self, code_bits: int) -> int:
        """Lq: codes one cycle can look up.

        Elements without lookup are limited by the SQQ's one read port: a line of 32 of them.
        """
        line = self.line_bytes // 2
        ways = {16: line, 8: self.luts, 7: 2 * self.luts}.get(code_bits, 4 * self.luts)
        return min(ways, self.lanes)

    def supports(self, config: TileConfig) -> bool:
        """Whether a chunk's scales fit the scale queue's one line; else the tile is refused."""
        return self.lanes // config.group * config.scale.bytes <= self.line_bytes

    def chunks(self, config: TileConfig) -> int:
        """Vector operations of one tile."""
        return config.elements // self.lanes

    @property
    def wires(self) -> tuple[Wire, ...]:
        out = True
        return (
            Wire("squash", self.loaders),
            Wire("open", self.loaders, out),  # the loader takes a command
            Wire("rows", self.loaders * TILE_ROWS, out),  # full ones of each TOut
        )

    @property
    def registers(self) -> RegisterMap:
        event, degree = Field("spurious", 1), Field("tiles", PREFETCH_BITS)
        entry, own = Field("value", 16), LoaderRegister
        parts = {
            field.name.upper(): Field("bytes" if "length" in field.name else "address", field.bits)
            for field in self.command_fields
        }
        orders = Field("squash", 1), Field("take_result", 1)
        loader = (
            *(declared(own[name], (part,), part) for name, part in parts.items()),
            declared(own.GO, (Field("waiting", 1),), Field("start", 1)),
            declared(own.STATUS, STATUS_FIELDS, *orders, codes=tuple(TileError)),
        )
        text = "registers of a loader each"
        return (
            declared(Register.IDENTITY, bytes_of("lanes", "luts", "loaders")),
            declared(Register.CONFIG, CONFIG_FIELDS, *CONFIG_FIELDS),
            declared(Register.PREFETCH, (degree,), degree),
            declared(Register.EVENTS, (event,), event, clears=True),
            RegisterGroup("LOADER", Register.LOADER, text, self.loaders, LOADER_STRIDE, loader),
            declared(Register.LUT, (entry,), entry, count=LUT_ENTRIES),
        )

    @property
    def command_fields(self) -> tuple[Field, ...]:
        """Metadata of one tile: base and length in bytes of each structure."""
        return self.commands[0].fields

    @property
    def tile_register_bits(self) -> int:
        """Bits of a renamed tile register; the core has at least one per TEPL in the queue."""
        return max(TILE_REGISTER_BITS, (self.tepl_entries - 1).bit_length())

    @property
    def pe(self) -> "DecaParams":
        """The processing element alone."""
        return self.shared(DecaParams)


@dataclass(frozen=True, kw_only=True)
class DecaAxiParams(DecaParams):
    """The same with AXI ports: a master that reads lines, a slave with registers and rows."""

    block: ClassVar[str] = "deca_axi"
    summary: ClassVar[str] = "DECA processing element with AXI4 and AXI4-Lite ports"

    clock: ClassVar[str] = "aclk"
    reset: ClassVar[str] = "aresetn"

    inputs = outputs = Streams()

    @property
    def registers(self) -> RegisterMap:
        text = "words of the rows in the tile outputs; a row is read once"
        words = self.loaders * TILE_BYTES // REGISTER_BYTES
        rows = Entry("TOUT", AXI_TOUT, text, WORD, count=words)
        return (*super().registers, *interrupt_registers(Register), rows)

    @property
    def id_bits(self) -> int:
        """A tag, and above it whether the read is a prefetch."""
        return self.tag_bits + 1

    @property
    def wires(self) -> tuple[Wire, ...]:
        tag, line = self.id_bits, self.line_bits
        burst = {"len": 8, "size": 3, "burst": 2, "lock": 1, "cache": 4}
        return (
            *handshake("m_axi_ar", True, id=tag, addr=self.address_bits, **burst, prot=3, valid=1),
            *handshake("m_axi_r", False, id=tag, data=line, resp=2, last=1, valid=1),
            *axi_lite("s_axi_", AXI_ADDRESS_BITS, REGISTER_BITS),
            Wire("irq", 1, True),
        )


@dataclass(frozen=True, kw_only=True)
class DecaTeplParams(DecaParams):
    """The same with the core's TEPL unit, which drives the ports of both loaders."""

    block: ClassVar[str] = "deca_tepl"
    summary: ClassVar[str] = "DECA processing element with the core's TEPL unit"

    inputs = DecaParams.tepl_inputs + DecaParams.memory_inputs
    outputs = DecaParams.tepl_outputs + DecaParams.memory_outputs
    wires = ()


DECA_BLOCKS = (DecaParams, DecaAxiParams, DecaTeplParams)
