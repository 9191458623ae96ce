"""Parameters of the processing elements that Anda is compared with (``hw/pe``).

All have one signature. A beat of ``i`` has activations and weights for ``lanes``
multiply-accumulates, the shared ``exponent`` of the group's activations and the ``scale`` of its
weights. ``group_end`` marks the last beat of a group, ``last`` the last beat of a dot product
(which also ends its group); ``o`` then gives the dot product in fp16. A group has at most
``group`` elements. ``exponent`` and ``scale`` count on the beat that ends a group, unless an
element says otherwise; one that needs neither ignores them.

Throughput is ``lanes`` multiply-accumulates a cycle in every element: 16 cycles for a group of 64.
"""

from dataclasses import dataclass, replace
from enum import Enum
from typing import Annotated, ClassVar

from tilewright.golden.params.arith import AdderTreeStyle
from tilewright.golden.params.block import (
    BlockParams,
    Field,
    Timing,
    Untimed,
    one_of,
    require,
    stream,
    within,
)
from tilewright.golden.params.formats import BF16, FP16, FP32, FloatFormat, IntFormat


@dataclass(frozen=True, kw_only=True)
class PEParams(BlockParams):
    """Base of the processing elements.

    ``registered``: the operands of a beat pass registers of the element, which takes a cycle more.
    Otherwise they are held outside, at the edge of an array.

    ``result``: fp32 in an array, which rounds the sums that leave it. An element then has neither
    a rounder nor a register after its accumulator.

    ``isolated``: the last rounding sees zeros until its sum is complete. It changes no bit.
    """

    lanes: Annotated[int, one_of(1, 2, 4, 8, 16)] = 4
    group: int = 64
    registered: bool = False
    result: Annotated[FloatFormat, one_of(FP16, FP32)] = FP16
    isolated: bool = False

    def __post_init__(self) -> None:
        super().__post_init__()
        require(
            self.group % self.lanes == 0 and self.lanes <= self.group <= 1024,
            f"group must be a multiple of lanes up to 1024, not {self.group!r}",
        )

    exponent_bits = FP16.exponent_bits
    inputs = stream(
        "i",
        activation="activation",
        weight="weight",
        exponent="exponent_bits",
        scale=FP16,
        group_end=1,
        last=1,
    )
    outputs = stream("o", y="result")

    @property
    def rounds(self) -> bool:
        return self.result is FP16

    @property
    def activation_bits(self) -> int:
        raise NotImplementedError

    @property
    def activation(self) -> Field:
        """The activations of a beat; a PE whose activations are signed integers overrides this."""
        return Field("activation", self.activation_bits, self.beat_elements)

    @property
    def weight(self) -> Field:
        """The weights of a beat."""
        raise NotImplementedError

    @property
    def beat_elements(self) -> int:
        return self.lanes

    @property
    def latency(self) -> int:
        """Cycles from the last beat of a dot product, in registers or not, to its result."""
        raise NotImplementedError

    @property
    def group_cycles(self) -> int:
        return self.group // self.lanes

    @property
    def growth(self) -> int:
        """Levels of an adder tree, so bits by which a sum is longer than a product."""
        return (self.lanes - 1).bit_length()

    @property
    def timing(self) -> Timing:
        """A beat a cycle whatever its flags: results are as far apart as their last beats."""
        return Timing(latency=self.latency + self.registered)


class SumForm(Enum):
    """How the products of a beat join the fp32 accumulator.

    ``FUSED``, as in tensor cores: exact products, aligned to the largest exponent among them and
    truncated to a window, are summed; their sum and the accumulator, aligned and truncated in the
    same way, are summed and rounded once. ``DISCRETE``: a balanced tree of fp32 sums, then one more
    with the accumulator, each rounded.
    """

    FUSED = "fused"
    DISCRETE = "discrete"


@dataclass(frozen=True, kw_only=True)
class FusedParams(PEParams):
    """Elements that have :data:`SumForm.FUSED`.

    The exponent of a term is that of its nominal top bit: subnormals and short products keep their
    leading zeros. A term that is zero has none. Magnitudes are truncated to the window. A sum of
    terms that cancels is +0.
    """

    guard_bits: Annotated[int, within(0, 8)] = 2

    @property
    def product_bits(self) -> int:
        raise NotImplementedError

    @property
    def window_bits(self) -> int:
        """fp32's significand or a sum of products, and what is kept below it."""
        return max(FP32.significand_bits, self.product_bits + self.growth) + self.guard_bits


@dataclass(frozen=True, kw_only=True)
class FpFpParams(FusedParams):
    """fp16 activations times fp16 weights, accumulated in fp32.

    Weights are dequantised before they arrive: their scales are in them, groups mean nothing, and
    ``exponent``, ``scale`` and ``group_end`` are ignored. Infinity and NaN follow IEEE 754.

    ``stages`` are the registers of the fused form from operands to result, added in this order: the
    accumulator, the sum of a beat's products, the result, the products. ``adder`` is how a beat's
    products are summed. Neither changes a bit; the discrete form has one arrangement of its own.
    """

    block: ClassVar[str] = "pe_fp_fp"
    summary: ClassVar[str] = "processing element, fp16 x fp16 into fp32"
    PRESETS: ClassVar = {
        "default": {},
        "discrete": {"form": SumForm.DISCRETE},
        "registered": {"registered": True},
        "small": {"lanes": 2, "group": 8, "guard_bits": 0},
    }
    activation_bits = FP16.bits
    product_bits = 2 * FP16.significand_bits

    form: SumForm = SumForm.FUSED
    stages: Annotated[int, within(1, 4)] = 3
    adder: AdderTreeStyle = AdderTreeStyle.BALANCED

    def __post_init__(self) -> None:
        super().__post_init__()
        require(
            self.form is SumForm.FUSED
            or (self.stages == 3 and self.adder is AdderTreeStyle.BALANCED),
            "stages and adder are of the fused form",
        )

    @property
    def weight(self) -> Field:
        return Field("weight", FP16.bits, self.lanes)

    @property
    def latency(self) -> int:
        if self.form is SumForm.DISCRETE:
            return 2 + self.growth + self.rounds
        return self.stages - (self.stages >= 3 and not self.rounds)


@dataclass(frozen=True, kw_only=True)
class IntegerWeightParams(PEParams):
    """Elements with two's complement weights."""

    weight_bits: Annotated[int, within(2, 8)] = 4

    @property
    def weight_format(self) -> IntFormat:
        return IntFormat(bits=self.weight_bits)

    @property
    def weight(self) -> Field:
        return Field("weight", self.weight_bits, self.lanes, signed=True)


@dataclass(frozen=True, kw_only=True)
class GroupScaledParams(IntegerWeightParams):
    """Integer weights: a sum over each group, scaled and accumulated.

    All share the last steps: group sum to ``partial``, times the scale into fp32, added to the fp32
    accumulator, which starts at +0; each step rounded once. The result is rounded to fp16.

    Results do not depend on the following. ``stages`` are the registers from operands to result,
    added in this order: the group's sum and the accumulator, the scaled sum, the result, the sum in
    ``partial``, the sum of a beat's products. ``adder`` makes and sums a beat's products.
    ``bounded``: the accumulator omits cases that sums of such products cannot reach, subnormal or
    too large, as Anda's does.
    """

    partial: Annotated[FloatFormat, one_of(FP16, FP32)] = FP16
    stages: Annotated[int, within(2, 6)] = 4
    adder: AdderTreeStyle = AdderTreeStyle.BALANCED
    bounded: bool = False

    @property
    def latency(self) -> int:
        return self.stages - (self.stages >= 4 and not self.rounds)


class GroupSum(Enum):
    """How an element with floats times integers sums the products of a group.

    ``EXACT``: products are shifted to their place in one fixed-point number, which fp16's short
    range allows; nothing is lost before the group's sum is rounded to ``partial``. ``FLOAT``: an
    fp32 accumulator as ``SumForm.FUSED`` says, which is larger and less exact.
    """

    EXACT = "exact"
    FLOAT = "float"


@dataclass(frozen=True, kw_only=True)
class FpIntParams(GroupScaledParams, FusedParams):
    """fp16 activations times integer weights, each product with an exponent of its own.

    Exact products are summed as ``group_sum`` says; ``exponent`` is ignored, and ``guard_bits``
    where sums are exact. Infinity and NaN follow IEEE 754. A group's sum that is zero is +0.
    """

    block: ClassVar[str] = "pe_fp_int"
    summary: ClassVar[str] = "processing element, fp16 x int4 with alignment per product"
    PRESETS: ClassVar = {
        "default": {},
        "float": {"group_sum": GroupSum.FLOAT},
        "registered": {"registered": True},
        "small": {"lanes": 2, "group": 8, "weight_bits": 3, "partial": FP32},
    }
    activation_bits = FP16.bits

    group_sum: GroupSum = GroupSum.EXACT
    stages: int = 5

    def __post_init__(self) -> None:
        super().__post_init__()
        plain = self.stages == 5 and self.adder is AdderTreeStyle.BALANCED and not self.bounded
        require(
            self.group_sum is GroupSum.EXACT or plain,
            "stages, adder and bounded are of exact group sums",
        )

    @property
    def product_bits(self) -> int:
        """The magnitude of a weight is at most 2^(weight_bits - 1)."""
        return FP16.significand_bits + self.weight_bits - 1

    @property
    def magnitude_bits(self) -> int:
        """Bits of the magnitude of a group's exact sum, in units of fp16's smallest number."""
        places = FP16.max_exponent - FP16.min_exponent
        return self.product_bits + places + (self.group - 1).bit_length()


@dataclass(frozen=True, kw_only=True)
class AlignedParams(GroupScaledParams):
    """Activations aligned to the group's largest exponent before they arrive.

    An activation is {mantissa, sign}, the sign on top; its value is
    (-1)^sign * mantissa * 2^(exponent - 15 - (mantissa_bits - 1)), ``exponent`` 1..30. A group's
    sum is exact.
    """

    mantissa_bits: Annotated[int, within(1, 40)] = 14

    @property
    def activation_bits(self) -> int:
        return self.mantissa_bits + 1

    @property
    def kept_bits(self) -> int:
        """Bits from the weight of the shared exponent down to the unit of a group's sum."""
        return self.mantissa_bits

    @property
    def magnitude_bits(self) -> int:
        """Bits of the magnitude of a group's sum."""
        return self.kept_bits + self.weight_bits - 1 + (self.group - 1).bit_length()


@dataclass(frozen=True, kw_only=True)
class FignaParams(AlignedParams):
    """Aligned mantissas times whole integer weights.

    ``merged``: the partial products of a beat are one sum, whatever ``adder`` says, and a product's
    sign is applied to its mantissa. It changes no bit.
    """

    block: ClassVar[str] = "pe_figna"
    summary: ClassVar[str] = "processing element, aligned mantissa x int4, bit-parallel"
    PRESETS: ClassVar = {
        "default": {},
        "m11": {"mantissa_bits": 11},
        "m8": {"mantissa_bits": 8},
        "registered": {"registered": True},
        "small": {"lanes": 2, "group": 8, "weight_bits": 3, "mantissa_bits": 3, "partial": FP32},
    }

    merged: bool = False


@dataclass(frozen=True, kw_only=True)
class FignaChunkParams(AlignedParams):
    """Mantissas aligned inside a chunk, the ``lanes`` elements of a beat; chunk sums to the group.

    A beat's ``exponent`` is {distance, exponent}, the distance on top: how far the chunk's largest
    exponent lies below the group's. The exact sum of a chunk is shifted right by it, ``guard_bits``
    kept below the group's unit and the rest rounded down; the group's sum of these is exact. So
    multipliers have the length of an fp16 significand, and one shifter serves all lanes.
    ``merged`` is as in :class:`FignaParams`.
    """

    block: ClassVar[str] = "pe_figna_c"
    summary: ClassVar[str] = "processing element, mantissas aligned per chunk x int4, bit-parallel"
    PRESETS: ClassVar = {
        "default": {},
        "registered": {"registered": True},
        "small": {"lanes": 2, "group": 8, "weight_bits": 3, "mantissa_bits": 3, "guard_bits": 1},
    }

    exponent_bits = 2 * FP16.exponent_bits
    mantissa_bits: int = FP16.significand_bits
    guard_bits: Annotated[int, within(0, 8)] = 3  # as many bits in all as FIGNA's mantissas have
    merged: bool = False

    @property
    def kept_bits(self) -> int:
        return self.mantissa_bits + self.guard_bits


@dataclass(frozen=True, kw_only=True)
class DecaLaneParams(IntegerWeightParams):
    """``lanes`` lanes of DECA with their share of the matrix unit.

    A code of ``weight_bits`` bits becomes the bf16 value of its integer, is scaled in bf16 as
    DECA's scaler does it, and multiplied with a bf16 activation; products are exact in fp32 and
    summed by a balanced tree and an accumulator, all in fp32. Every step rounds to nearest even;
    subnormal operands count as zero and subnormal results become zero, as in AMX; the result is
    rounded to fp16 without that. ``scale`` is bf16 and counts on every beat; ``exponent`` and
    ``group_end`` are ignored. The table is fixed: DECA's own is a memory that its record counts.
    """

    block: ClassVar[str] = "pe_deca"
    summary: ClassVar[str] = "lanes of DECA and of a matrix unit: int4 codes x bf16 into fp32"
    PRESETS: ClassVar = {"default": {}, "small": {"lanes": 2, "group": 8, "weight_bits": 3}}
    activation_bits = BF16.bits

    @property
    def latency(self) -> int:
        """Scaling, products, levels of the tree, accumulation, rounding."""
        return 3 + self.growth + self.rounds


@dataclass(frozen=True, kw_only=True)
class IfpuParams(AlignedParams):
    """Aligned mantissas times one bit of every weight at a time, the highest first.

    ``lanes * weight_bits`` activations stay on ``i`` for ``weight_bits`` beats, each with one bit
    of every weight; a group ends on the beat of the lowest bits. So one-bit lanes do ``lanes``
    multiply-accumulates a cycle. Mantissas as long as an fp32 significand are as exact as fp32 sums
    of fp16 products.
    """

    block: ClassVar[str] = "pe_ifpu"
    summary: ClassVar[str] = "processing element, aligned mantissa x int4, bit-serial in the weight"
    PRESETS: ClassVar = {
        "default": {},
        "registered": {"registered": True},
        "small": {"lanes": 2, "group": 8, "weight_bits": 2, "mantissa_bits": 12, "partial": FP32},
    }

    mantissa_bits: int = FP32.significand_bits

    def __post_init__(self) -> None:
        super().__post_init__()
        require(
            self.group % self.beat_elements == 0,
            f"group must be a multiple of lanes * weight_bits, not {self.group!r}",
        )

    @property
    def beat_elements(self) -> int:
        return self.lanes * self.weight_bits

    @property
    def weight(self) -> Field:
        return Field("weight", 1, self.beat_elements)


@dataclass(frozen=True, kw_only=True)
class FignaAlignerParams(BlockParams):
    """fp16 activations to aligned mantissas, at the edge of an array: one serves a row of elements.

    Takes ``lanes`` activations a cycle and keeps them until ``group_end`` completes their group, of
    up to ``group``; then gives them, aligned to its largest exponent and truncated toward zero,
    while it takes the next group. Infinity and NaN count as the largest finite magnitude.
    """

    block: ClassVar[str] = "figna_aligner"
    summary: ClassVar[str] = "fp16 activations to mantissas that share a group's largest exponent"
    PRESETS: ClassVar = {"default": {}, "small": {"lanes": 2, "group": 8, "mantissa_bits": 5}}

    lanes: Annotated[int, one_of(1, 2, 4, 8, 16)] = 4
    group: int = 64
    mantissa_bits: Annotated[int, within(1, 40)] = 14

    inputs = stream("i", activation=(FP16, "lanes"), group_end=1)
    outputs = stream(
        "o", activation=("activation_bits", "lanes"), exponent=FP16.exponent_bits, group_end=1
    )
    # From a group's last beat to its first aligned one; then a beat a cycle.
    timing = Timing(latency=2)

    def __post_init__(self) -> None:
        super().__post_init__()
        require(
            self.group % (2 * self.lanes) == 0 and 2 * self.lanes <= self.group <= 1024,
            f"group must be a multiple of 2 lanes up to 1024, not {self.group!r}",
        )

    @property
    def activation_bits(self) -> int:
        return self.mantissa_bits + 1

    @property
    def beats(self) -> int:
        return self.group // self.lanes


@dataclass(frozen=True, kw_only=True)
class PeArrayParams(BlockParams):
    """``rows`` x ``columns`` of one processing element, output stationary: a tile of a GEMM.

    A beat of ``i`` has what the elements take: each row's activations and shared exponent, row by
    row, each column's weights and scale, and flags for all. Operands are registered once per row
    and once per column; activations of an element that takes bits of weights are loaded with the
    first of these. Elements keep fp32 sums, which one row of converters rounds on their way out:
    each result is the element's own. ``o`` gives the tile row by row.

    ``pe``, any element of this module with ``registered`` false, is written
    ``pe=BLOCK[:PRESET]``, its fields ``pe.FIELD=VALUE``.
    """

    block: ClassVar[str] = "pe_array"
    summary: ClassVar[str] = "output-stationary array of processing elements of one kind"
    PRESETS: ClassVar = {
        "paper": {},
        "small": {"rows": 2, "columns": 3, "pe": FignaParams.preset("small")},
        "tall": {"rows": 6, "columns": 2, "pe": FpIntParams.preset("small")},
        "serial": {"rows": 2, "columns": 2, "pe": IfpuParams.preset("small")},
    }
    pipelined: ClassVar[bool] = False  # the drain

    rows: Annotated[int, within(1, 64)] = 16
    columns: Annotated[int, within(1, 64)] = 16
    pe: PEParams = FignaParams()

    inputs = stream(
        "i",
        activation="activation",
        exponent=("pe.exponent_bits", "rows"),
        weight="weight",
        scale=(FP16, "columns"),
        group_end=1,
        last=1,
    )
    outputs = stream("o", row="row_bits", values=(FP16, "columns"), last=1)
    timing = Untimed("tiles differ in length: see tilewright.golden.pe.array_cycles")

    def __post_init__(self) -> None:
        super().__post_init__()
        require(
            isinstance(self.pe, PEParams) and not self.pe.registered and self.pe.rounds,
            "pe must be a processing element that holds no operands and gives fp16,"
            f" not {self.pe.slug}",
        )

    @property
    def element(self) -> PEParams:
        """An element as it is in the array."""
        return replace(self.pe, result=FP32)

    @property
    def activation(self) -> Field:
        return replace(self.pe.activation, count=self.rows * self.pe.beat_elements)

    @property
    def weight(self) -> Field:
        return replace(self.pe.weight, count=self.columns * self.pe.beat_elements)

    @property
    def weight_beats(self) -> int:
        """Beats for which activations stay."""
        return self.pe.beat_elements // self.pe.lanes

    @property
    def row_bits(self) -> int:
        return max(1, (self.rows - 1).bit_length())


PE_BLOCKS: tuple[type[BlockParams], ...] = (
    FpFpParams,
    FpIntParams,
    IfpuParams,
    FignaParams,
    FignaChunkParams,
    DecaLaneParams,
    FignaAlignerParams,
    PeArrayParams,
)
