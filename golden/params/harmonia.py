"""Parameters of Harmonia: all-layer block floating point with a compressed KV cache."""

from dataclasses import dataclass
from enum import Enum
from fractions import Fraction
from typing import Annotated, ClassVar

from tilewright.golden.params.block import (
    BlockParams,
    Field,
    Limited,
    Timing,
    Untimed,
    at_least,
    one_of,
    require,
    signed,
    stream,
    within,
)
from tilewright.golden.params.formats import FP16, FP32, BlockFormat, FloatFormat, IntFormat

ACTIVATION_BITS = 8  # mantissas outside the cache, and the first operand of every product


class Mode(Enum):
    """Modes of the reconfigurable element: 8-bit mantissas times one of three operands."""

    M8W4 = "m8w4"  # 4-bit integer weights with a scale per weight group: linear layers
    M8M4 = "m8m4"  # 4-bit mantissas: old tokens of the cache
    M8M8 = "m8m8"  # 8-bit mantissas, as 16 * high half + low half: recent tokens

    @property
    def code(self) -> int:
        """The mode's number on the wires."""
        return list(Mode).index(self)

    @property
    def operand_bits(self) -> int:
        """Magnitude or two's complement bits of the second operand."""
        return 8 if self is Mode.M8M8 else 4

    @property
    def passes(self) -> int:
        """Sub-PE sums that make one group's sum."""
        return 2 if self is Mode.M8M8 else 1


@dataclass(frozen=True, kw_only=True)
class HarmoniaNumerics(Limited):
    """Everything a group's result depends on apart from its operands.

    The exact integer sum of a group becomes a number of ``partial`` by the sum of both shared
    exponents; in M8W4 it is multiplied by the weight scale into fp32, else taken as fp32; it is
    added to an fp32 sum that starts at +0, group after group; the sum leaves as fp16. Every step
    rounds to nearest even.
    """

    group: Annotated[int, within(2, 64)] = 32
    partial: Annotated[FloatFormat, one_of(FP16, FP32)] = FP16

    @property
    def activation(self) -> BlockFormat:
        """The first operand in every mode."""
        return BlockFormat(group=self.group, mantissa_bits=ACTIVATION_BITS)

    @property
    def weight_format(self) -> IntFormat:
        return IntFormat(bits=Mode.M8W4.operand_bits)

    @property
    def group_sum_bits(self) -> int:
        """Bits of the signed sum of a group of 8-bit by 8-bit magnitudes."""
        return 2 * ACTIVATION_BITS + (self.group - 1).bit_length() + 1


@dataclass(frozen=True, kw_only=True)
class CacheParams(Limited):
    """Mantissa lengths of cached tokens by age, and the number of K channels with an offset.

    A K token is grouped along its channels, V along ``group`` tokens of one channel. Lengths are
    (recent, old): tokens of the ``initial`` and the ``local`` window are recent, all others old. A
    V group is recent until all its tokens have left the local window: one group has one length.

    ``offset_channels`` is the number k of K channels that are shifted. The paper does not give it;
    with eight, the rows of its array, the offsets of a head fit one column of results.
    """

    group: Annotated[int, at_least(1)] = 32
    initial: int = 32
    local: int = 64
    key_bits: tuple[int, int] = (8, 4)
    value_bits: tuple[int, int] = (8, 4)
    offset_channels: Annotated[int, at_least(0)] = 8

    def __post_init__(self) -> None:
        super().__post_init__()
        for name in ("initial", "local"):
            value = getattr(self, name)
            require(
                value >= 0 and value % self.group == 0,
                f"{name} must be a multiple of the group {self.group}, not {value!r}",
            )
        for name in ("key_bits", "value_bits"):
            high, low = getattr(self, name)
            for length in (high, low):
                BlockFormat(group=self.group, mantissa_bits=length)
            require(low <= high, f"{name}: old tokens have {low} bits, recent ones {high}")


# One sub-PE multiplies 8-bit magnitudes with 4-bit ones, signs apart. An integer weight of
# -8..7 is a sign and a magnitude of 4 bits too; an 8-bit mantissa is two such operands.
OPERAND_BITS = 4
MODE_BITS = 2


@dataclass(frozen=True, kw_only=True)
class HarmoniaPeParams(BlockParams):
    """The reconfigurable PE: ``sub_elements`` dot products share one accumulator.

    Each sub-PE sums ``group`` products, ``group / fold`` of them a cycle. A *step* is one sum
    of every sub-PE; it takes ``fold`` beats of ``i``, lanes in order. Sums go to the
    accumulator one a cycle, sub-PE 0 first, so a step takes ``sub_elements`` cycles if
    ``fold`` is not larger than that.

    In M8M8 sums are in pairs, the high halves of a group and then the low ones: the even
    sub-PEs (the first wrapper) have the high halves, the odd ones the low halves; a single
    sub-PE takes them step by step. ``first`` and ``last`` mark the first and the last step of
    an output; ``a_exponents``, ``b_exponents`` and ``scale`` belong to a step's last beat. In M8W4
    ``b_exponents`` do not count, in the other modes ``scale`` does not.

    ``registered``: the operands of a beat pass registers of the PE, which takes a cycle more.
    Otherwise they are held outside, as by the dispatchers of the array.

    Results do not depend on the following. ``stages`` are the registers from the sum of a group to
    the result, added in this order: the sub-PEs' sums and the accumulator, the scaled sum, the
    result, the sum in ``partial``. ``bounded``, ``merged`` and ``isolated`` are as in
    :class:`tilewright.golden.params.pe.FignaParams`; where ``isolated``, registers of operands have
    products' signs, exponents once a step, and a scale when it is another one.

    ``beat_cycles``, for FPGAs: cycles of a beat, with registers inside every operation. Results are
    the same.
    """

    block: ClassVar[str] = "harmonia_pe"
    summary: ClassVar[str] = "Harmonia element: BFP x int4 and BFP x BFP dot products"
    PRESETS: ClassVar = {
        "paper": {},
        "registered": {"registered": True},
        "single": {"sub_elements": 1, "fold": 1},
        "small": {"group": 4, "sub_elements": 2, "fold": 1},
        "wide": {"group": 8, "fold": 2, "partial": FP32, "result": FP32},
        "paced": {"beat_cycles": 6},
    }

    group: int = 32
    sub_elements: Annotated[int, one_of(1, 2, 4)] = 4
    fold: int = 4
    partial: FloatFormat = FP16
    result: Annotated[FloatFormat, one_of(FP16, FP32)] = FP16  # fp32 in the array, which rounds
    registered: bool = False
    stages: Annotated[int, within(2, 5)] = 5
    bounded: bool = False
    merged: bool = False
    isolated: bool = False
    beat_cycles: Annotated[int, within(1, 8)] = 1

    inputs = stream(
        "i",
        mode=MODE_BITS,
        first=1,
        last=1,
        a_signs=(1, "pairs"),  # sub-PE by sub-PE
        a=(ACTIVATION_BITS, "pairs"),
        b_signs=(1, "pairs"),
        b=(OPERAND_BITS, "pairs"),
        a_exponents=(FP16.exponent_bits, "sub_elements"),
        b_exponents=(FP16.exponent_bits, "sub_elements"),
        scale=FP16,
    )
    outputs = stream("o", y="result")

    def __post_init__(self) -> None:
        _ = self.numerics
        super().__post_init__()
        require(
            1 <= self.fold <= self.sub_elements and self.group % self.fold == 0,
            f"fold must divide the group {self.group} and be at most sub_elements "
            f"{self.sub_elements}, or the accumulator waits: not {self.fold!r}",
        )
        plain = self.stages == 5 and not (self.bounded or self.merged or self.isolated)
        require(
            self.beat_cycles == 1 or plain,
            "stages, bounded, merged and isolated are of elements with a beat_cycles of 1",
        )

    @property
    def numerics(self) -> HarmoniaNumerics:
        return self.shared(HarmoniaNumerics)

    @property
    def lanes(self) -> int:
        """Multipliers of one sub-PE."""
        return self.group // self.fold

    @property
    def pairs(self) -> int:
        """Products of one beat."""
        return self.sub_elements * self.lanes

    @property
    def half_sum_bits(self) -> int:
        """Bits of the signed sum of a group of 8-bit by 4-bit magnitudes."""
        largest = self.group * ((1 << ACTIVATION_BITS) - 1) * ((1 << OPERAND_BITS) - 1)
        return largest.bit_length() + 1

    @property
    def step_cycles(self) -> int:
        """Cycles of one step when neither side waits."""
        return self.sub_elements * self.beat_cycles

    @property
    def latency(self) -> int:
        """Cycles from the last beat of a dot product to its result."""
        return self.result_steps * self.beat_cycles + (self.beat_cycles > 1)

    @property
    def result_steps(self) -> int:
        """Steps from the last beat of a dot product to its result; sums leave one by one."""
        return self.sub_elements - 1 + self.stages

    @property
    def steps_in_flight(self) -> int:
        """Steps until a beat is done, including those in which it waits for its predecessor."""
        return self.result_steps + self.sub_elements - self.fold

    def macs_per_cycle(self, mode: Mode) -> Fraction:
        """Sustained multiply-accumulates a cycle."""
        return Fraction(self.sub_elements * self.group, self.step_cycles * mode.passes)

    @property
    def timing(self) -> Timing:
        """A step has ``fold`` beats and takes ``step_cycles`` cycles."""
        latency = self.latency + (self.registered and self.beat_cycles == 1)
        return Timing(latency=latency, interval=Fraction(self.step_cycles, self.fold))


@dataclass(frozen=True, kw_only=True)
class HarmoniaConverterParams(BlockParams):
    """fp16 results of the array to block floating point, ``rows`` values a cycle or more.

    Values are in blocks, as results of the array: a column's ``rows`` results in each beat. In a
    temporal block every row is a group: ``group`` beats of one element, or fewer of ``width``
    elements each, all rows' first elements first. In a ``spatial`` one every column is a
    group, ``rows`` elements of it in each of ``loops`` passes over the ``columns``; it is given
    column by column. ``spatial`` and ``short`` (mantissas of 4 bits instead of 8) count on a
    block's first beat. With a ``spatial_width`` a spatial beat has as many columns, all rows of the
    first one first, as those that leave do; ``o.exponents`` begin with theirs. ``o.last`` marks the
    end of a block, ``saturated`` says that a value of the block was infinite or NaN and counts as
    the largest finite one of its sign.
    """

    block: ClassVar[str] = "harmonia_converter"
    summary: ClassVar[str] = "Harmonia converter: fp16 results to block floating point"
    PRESETS: ClassVar = {
        "paper": {},
        "small": {"rows": 2, "columns": 3, "group": 4},
        "wide": {"width": 4},
        "small_wide": {"rows": 2, "columns": 3, "group": 8, "width": 2},
        "small_both": {"rows": 4, "columns": 6, "group": 8, "width": 2, "spatial_width": 2},
    }

    rows: int = 8
    columns: Annotated[int, at_least(1)] = 16
    group: int = 32
    width: int = 1  # elements of every row in a beat of a temporal block
    spatial_width: int = 1  # columns of a beat of a spatial block: 1 or the width

    inputs = stream("i", spatial=1, short=1, values=(FP16, "lanes"))
    outputs = stream(
        "o",
        signs=(1, "lanes"),
        mantissas=(ACTIVATION_BITS, "lanes"),
        exponents=(FP16.exponent_bits, "rows"),
        saturated=1,
        last=1,
    )
    timing = Untimed("blocks differ in length: see tilewright.golden.harmonia.converter")

    def __post_init__(self) -> None:
        HarmoniaNumerics(group=self.group)
        require(
            self.width in (1, 2, 4) and self.group % self.width == 0,
            f"width must be 1, 2 or 4 and divide the group, not {self.width!r}",
        )
        require(
            self.rows >= 1 and self.group % self.rows == 0,
            f"rows must divide the group {self.group}, not {self.rows!r}",
        )
        spatial = self.spatial_width
        fits = self.rows % spatial == 0 == self.columns % spatial if spatial > 0 else False
        require(
            spatial in (1, self.width) and fits,
            f"spatial_width must be 1 or the width {self.width} and divide rows and columns, "
            f"not {spatial!r}",
        )
        super().__post_init__()

    @property
    def loops(self) -> int:
        """Passes over the columns that make their groups whole."""
        return self.group // self.rows

    def block_beats(self, spatial: bool) -> int:
        if spatial:
            return self.loops * self.columns // self.spatial_width
        return self.group // self.width

    @property
    def lanes(self) -> int:
        """Values of a beat of a temporal block; a spatial one has the first of them."""
        return self.rows * self.width


@dataclass(frozen=True, kw_only=True)
class HarmoniaOffsetParams(BlockParams):
    """Offsets of K's channels: learnt from the first tokens, then subtracted from all.

    A beat has ``rows`` tokens of one ``channel``, or of ``width`` channels from that one on, all
    tokens' first channels first; beats that learn have one channel. Beats with ``learn`` are those
    of the initial window: block of tokens by block, all channels in order; ``first`` marks the
    beats of the first tokens, ``last`` the last beat of all, after which the ``offsets`` channels
    of largest magnitude are selected. A beat without ``learn`` leaves at ``o`` with its channels'
    offsets subtracted.
    """

    block: ClassVar[str] = "harmonia_offset"
    summary: ClassVar[str] = "Harmonia K-offset generator: learns and subtracts channel offsets"
    PRESETS: ClassVar = {
        "paper": {},
        "small": {"rows": 2, "channels": 6, "offsets": 2},
        "wide": {"rows": 2, "channels": 8, "offsets": 2, "width": 4},
        "pipelined": {"rows": 2, "channels": 8, "offsets": 2, "pipelined": True},
    }

    rows: Annotated[int, at_least(1)] = 8
    # A channel's maximum is read while the one before it is written.
    channels: Annotated[int, at_least(2)] = 128
    offsets: int = 8
    width: int = 1  # channels of a beat that does not learn
    pipelined: bool = False  # for FPGAs: registers before the subtraction and within

    inputs = stream("i", learn=1, first=1, last=1, channel="channel_bits", values=(FP16, "lanes"))
    outputs = stream("o", values=(FP16, "lanes"))
    timing = Untimed("learning gives nothing: see tilewright.golden.harmonia.offset")

    def __post_init__(self) -> None:
        super().__post_init__()
        require(
            self.width in (1, 2, 4) and self.channels % self.width == 0,
            f"width must be 1, 2 or 4 and divide the channels, not {self.width!r}",
        )
        require(
            1 <= self.offsets <= self.channels,
            f"offsets must be 1..{self.channels}, the channels, not {self.offsets!r}",
        )

    @property
    def lanes(self) -> int:
        return self.rows * self.width

    @property
    def channel_bits(self) -> int:
        return (self.channels - 1).bit_length()

    @property
    def latency(self) -> int:
        """Cycles of a beat that does not learn."""
        return 3 if self.pipelined else 1


@dataclass(frozen=True, kw_only=True)
class HarmoniaArrayParams(BlockParams):
    """``rows`` x ``columns`` elements, output stationary: a tile of a product.

    ``load`` fills the columns' operand memories, ``words`` sums each. A beat of ``i`` is one sum:
    ``rows`` groups of activations, which move from column to column, and the ``address`` of the
    operands they are multiplied by, the same in every column. An 8-bit operand is two sums, the
    high half first. ``first`` and ``last`` mark the sums of a tile; ``o`` then gives the tile
    column by column, ``rows`` results a beat. ``stages``, ``bounded``, ``merged`` and
    ``beat_cycles`` are those of its elements.
    """

    block: ClassVar[str] = "harmonia_array"
    summary: ClassVar[str] = "Harmonia array: systolic activations, operands held by the columns"
    PRESETS: ClassVar = {
        "paper": {},
        "small": {"rows": 2, "columns": 3, "group": 4, "words": 8},
        "paced": {"rows": 2, "columns": 4, "group": 4, "words": 8, "beat_cycles": 3},
    }

    rows: Annotated[int, at_least(1)] = 8
    columns: Annotated[int, at_least(2)] = 16
    group: int = 32
    words: Annotated[int, at_least(2)] = 512
    partial: FloatFormat = FP16
    stages: int = 5
    bounded: bool = False
    merged: bool = False
    beat_cycles: int = 1

    inputs = stream(
        "load",
        column="column_bits",
        address="address_bits",
        b_signs=(1, "group"),
        b=(OPERAND_BITS, "group"),
        b_exponent=FP16.exponent_bits,
        scale=FP16,
    ) + stream(
        "i",
        mode=MODE_BITS,
        first=1,
        last=1,
        address="address_bits",
        a_signs=(1, "lanes"),  # row by row
        a=(ACTIVATION_BITS, "lanes"),
        a_exponents=(FP16.exponent_bits, "rows"),
    )
    outputs = stream("o", values=(FP16, "rows"), last=1)
    timing = Untimed("tiles differ in length: see tilewright.golden.harmonia.array")

    def __post_init__(self) -> None:
        super().__post_init__()
        _ = self.numerics

    @property
    def pe(self) -> HarmoniaPeParams:
        """One sum a beat: the cheapest element that keeps the rate."""
        return self.shared(HarmoniaPeParams, sub_elements=1, fold=1, result=FP32)

    @property
    def tile_apart(self) -> int:
        """Least cycles from the last sum of a tile to that of the next, in whole sums."""
        return -(-self.columns // self.beat_cycles) * self.beat_cycles

    @property
    def steps(self) -> int:
        """Sums for which the pace continues after the last one, until it is done."""
        return max(self.pe.result_steps, self.tile_apart // self.beat_cycles + 1)

    @property
    def numerics(self) -> HarmoniaNumerics:
        return self.shared(HarmoniaNumerics)

    @property
    def address_bits(self) -> int:
        return (self.words - 1).bit_length()

    @property
    def column_bits(self) -> int:
        return (self.columns - 1).bit_length()

    @property
    def lanes(self) -> int:
        return self.rows * self.group

    @property
    def operand_fields(self) -> tuple[Field, ...]:
        """A column's operands of one sum."""
        return self.inputs[0].fields[2:]

    @property
    def latency(self) -> int:
        """Cycles from the last beat of a tile to its first column: into the column, its PE, out."""
        return 1 + self.pe.latency + 2

    @property
    def result_places(self) -> int:
        """Columns of the result queue: enough that tiles never wait for it."""
        return self.columns * (2 + self.latency // self.columns)


@dataclass(frozen=True, kw_only=True)
class Int8QuantiserParams(BlockParams):
    """The converter's alternative: fp16 results to 8-bit integers, ``rows`` a cycle.

    Every row is a group of ``group`` beats; its largest magnitude becomes 127. A code's magnitude
    is significand * ``factor``, shifted by the distance of the exponents and rounded half up, at
    most 127; the factor is 127 over the largest significand, truncated. ``o.largest`` is the
    group's largest magnitude in fp16: the scale is a 127th of it. Infinity and NaN count as the
    largest finite value of their sign.
    """

    block: ClassVar[str] = "int8_quantiser"
    summary: ClassVar[str] = "online quantiser: fp16 results to int8 groups"
    PRESETS: ClassVar = {"paper": {}, "small": {"rows": 2, "group": 4}}

    rows: Annotated[int, at_least(1)] = 8
    group: Annotated[int, at_least(2)] = 32

    inputs = stream("i", values=(FP16, "rows"))
    outputs = stream("o", codes=signed(8, "rows"), largest=(FP16, "rows"), last=1)
    timing = Untimed("groups wait for their end: see tilewright.golden.harmonia.int8_quantiser")

    LIMIT: ClassVar[int] = 127
    # Fraction bits of ``factor``, enough for half a unit of a code.
    FACTOR_FRACTION: ClassVar[int] = 6

    @staticmethod
    def factor(fraction: int) -> int:
        """127 over the significand with this 10-bit fraction, in units of 2^-FACTOR_FRACTION."""
        one = 1 << FP16.mantissa_bits
        return (Int8QuantiserParams.LIMIT * one << Int8QuantiserParams.FACTOR_FRACTION) // (
            one + fraction
        )

    @property
    def factor_bits(self) -> int:
        return self.factor(0).bit_length()


HARMONIA_BLOCKS = (
    HarmoniaPeParams,
    HarmoniaConverterParams,
    HarmoniaOffsetParams,
    HarmoniaArrayParams,
    Int8QuantiserParams,
)
