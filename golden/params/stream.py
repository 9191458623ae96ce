"""Parameters of the stream building blocks (``hw/stream``)."""

from dataclasses import dataclass
from fractions import Fraction
from typing import ClassVar

from tilewright.golden.params.block import BlockParams, Field, Port, Timing, require


@dataclass(frozen=True, kw_only=True)
class RegisterSliceParams(BlockParams):
    """Cuts payload, valid and ready paths with registers; one word a cycle."""

    block: ClassVar[str] = "register_slice"
    summary: ClassVar[str] = "registers on payload, valid and ready"
    PRESETS: ClassVar = {"default": {}, "tiny": {"width": 4}, "line": {"width": 512}}

    width: int = 32

    def __post_init__(self) -> None:
        require(self.width >= 1, f"width must be at least 1, not {self.width!r}")

    @property
    def inputs(self) -> tuple[Port, ...]:
        return (Port("i", (Field("data", self.width),)),)

    @property
    def outputs(self) -> tuple[Port, ...]:
        return (Port("o", (Field("data", self.width),)),)

    @property
    def timing(self) -> Timing:
        return Timing(latency=1)


@dataclass(frozen=True, kw_only=True)
class QueueParams(BlockParams):
    """First in, first out; ``depth`` words.

    No path from one side's handshake to the other's, so a full queue takes its next word the cycle
    after it gave one: a queue of depth 1 passes a word every second cycle.
    """

    block: ClassVar[str] = "queue"
    summary: ClassVar[str] = "first-in first-out queue"
    PRESETS: ClassVar = {
        "default": {},
        "tiny": {"width": 4, "depth": 2},
        "single": {"depth": 1},
        "odd": {"width": 24, "depth": 5},
    }

    width: int = 32
    depth: int = 8

    def __post_init__(self) -> None:
        require(self.width >= 1, f"width must be at least 1, not {self.width!r}")
        require(self.depth >= 1, f"depth must be at least 1, not {self.depth!r}")

    @property
    def inputs(self) -> tuple[Port, ...]:
        return (Port("i", (Field("data", self.width),)),)

    @property
    def outputs(self) -> tuple[Port, ...]:
        return (Port("o", (Field("data", self.width),)),)

    @property
    def timing(self) -> Timing:
        return Timing(latency=1, interval=Fraction(2 if self.depth == 1 else 1))


@dataclass(frozen=True, kw_only=True)
class ForkParams(BlockParams):
    """Every word to every output; each output takes it when it likes."""

    block: ClassVar[str] = "fork"
    summary: ClassVar[str] = "one stream to many, each at its own pace"
    PRESETS: ClassVar = {"default": {}, "tiny": {"width": 4}, "wide": {"ways": 5}}

    width: int = 32
    ways: int = 2

    def __post_init__(self) -> None:
        require(self.width >= 1, f"width must be at least 1, not {self.width!r}")
        require(self.ways >= 2, f"ways must be at least 2, not {self.ways!r}")

    @property
    def inputs(self) -> tuple[Port, ...]:
        return (Port("i", (Field("data", self.width),)),)

    @property
    def outputs(self) -> tuple[Port, ...]:
        return tuple(Port(f"o{k}", (Field("data", self.width),)) for k in range(self.ways))

    @property
    def timing(self) -> Timing:
        return Timing(latency=0)


@dataclass(frozen=True, kw_only=True)
class JoinParams(BlockParams):
    """One word of every input makes one output word."""

    block: ClassVar[str] = "join"
    summary: ClassVar[str] = "many streams to one, word by word in step"
    PRESETS: ClassVar = {"default": {}, "tiny": {"width": 4}, "wide": {"ways": 5}}

    width: int = 32
    ways: int = 2

    def __post_init__(self) -> None:
        require(self.width >= 1, f"width must be at least 1, not {self.width!r}")
        require(self.ways >= 2, f"ways must be at least 2, not {self.ways!r}")

    @property
    def inputs(self) -> tuple[Port, ...]:
        return tuple(Port(f"i{k}", (Field("data", self.width),)) for k in range(self.ways))

    @property
    def outputs(self) -> tuple[Port, ...]:
        return (Port("o", (Field("data", self.width, self.ways),)),)

    @property
    def timing(self) -> Timing:
        return Timing(latency=0)


@dataclass(frozen=True, kw_only=True)
class WidthConverterParams(BlockParams):
    """A bit stream cut into words of another width, lowest bits first."""

    block: ClassVar[str] = "width_converter"
    summary: ClassVar[str] = "words of one width to words of another, little-endian"
    PRESETS: ClassVar = {
        "default": {},
        "narrow": {"input_width": 128, "output_width": 32},
        "ragged": {"input_width": 24, "output_width": 40},
        "equal": {"input_width": 16, "output_width": 16},
    }

    input_width: int = 32
    output_width: int = 128

    def __post_init__(self) -> None:
        for name in ("input_width", "output_width"):
            value = getattr(self, name)
            require(value >= 1, f"{name} must be at least 1, not {value!r}")

    @property
    def inputs(self) -> tuple[Port, ...]:
        return (Port("i", (Field("data", self.input_width),)),)

    @property
    def outputs(self) -> tuple[Port, ...]:
        return (Port("o", (Field("data", self.output_width),)),)

    @property
    def timing(self) -> Timing:
        return Timing(
            latency=1, interval=max(Fraction(1), Fraction(self.output_width, self.input_width))
        )


@dataclass(frozen=True, kw_only=True)
class ArbiterParams(BlockParams):
    """Round robin: the input after the last one served goes first; no input waits for ever."""

    block: ClassVar[str] = "arbiter"
    summary: ClassVar[str] = "round-robin merge of streams, word tagged with its source"
    PRESETS: ClassVar = {"default": {}, "tiny": {"width": 4, "ways": 2}, "odd": {"ways": 3}}

    width: int = 32
    ways: int = 4

    def __post_init__(self) -> None:
        require(self.width >= 1, f"width must be at least 1, not {self.width!r}")
        require(self.ways >= 2, f"ways must be at least 2, not {self.ways!r}")

    @property
    def source_bits(self) -> int:
        return (self.ways - 1).bit_length()

    @property
    def inputs(self) -> tuple[Port, ...]:
        return tuple(Port(f"i{k}", (Field("data", self.width),)) for k in range(self.ways))

    @property
    def outputs(self) -> tuple[Port, ...]:
        return (Port("o", (Field("data", self.width), Field("source", self.source_bits))),)

    @property
    def timing(self) -> Timing:
        return Timing(latency=0)


STREAM_BLOCKS = (
    RegisterSliceParams,
    QueueParams,
    ForkParams,
    JoinParams,
    WidthConverterParams,
    ArbiterParams,
)
