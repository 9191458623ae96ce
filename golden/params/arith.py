"""Parameters of the arithmetic building blocks (``hw/arith``).

Every block takes one operand set and gives one result a cycle, ``latency`` cycles later; 0 is
combinational. ``latency`` never changes a result, so golden models do not read it.
"""

from dataclasses import dataclass
from enum import Enum
from typing import Annotated, ClassVar

from tilewright.golden.params.block import BlockParams, Timing, at_least, signed, stream, within
from tilewright.golden.params.formats import (
    BF16,
    E2M1,
    E4M3,
    E5M2,
    FP16,
    FP32,
    FloatFormat,
    Overflow,
    Rounding,
    Subnormals,
)


@dataclass(frozen=True, kw_only=True)
class PipelinedParams(BlockParams):
    """A block of ``latency`` pipeline registers between its ports ``i`` and ``o``."""

    latency: Annotated[int, within(0, 16)] = 0

    @property
    def timing(self) -> Timing:
        return Timing(latency=self.latency)


@dataclass(frozen=True, kw_only=True)
class FloatRules:
    """Everything a float operation's result depends on apart from its operands and formats."""

    rounding: Rounding = Rounding.NEAREST_EVEN
    overflow: Overflow = Overflow.INFINITY
    operand_subnormals: Subnormals = Subnormals.KEEP
    result_subnormals: Subnormals = Subnormals.KEEP


IEEE_RULES = FloatRules()
AMX_ROW_BYTES = 64  # of a tile register
AMX_RULES = FloatRules(operand_subnormals=Subnormals.FLUSH, result_subnormals=Subnormals.FLUSH)
_AMX = {"operand_subnormals": Subnormals.FLUSH, "result_subnormals": Subnormals.FLUSH}


@dataclass(frozen=True, kw_only=True)
class FloatBlockParams(FloatRules, PipelinedParams):
    """A float operation on ``lanes`` independent operand sets."""

    lanes: Annotated[int, within(1, 64)] = 1

    outputs = stream("o", y=("out", "lanes"))

    @property
    def rules(self) -> FloatRules:
        """The rules without the rest of the block's parameters."""
        return self.shared(FloatRules)


@dataclass(frozen=True, kw_only=True)
class FloatPairParams(FloatBlockParams):
    """A float operation on two operands."""

    a: FloatFormat = BF16
    b: FloatFormat = BF16
    out: FloatFormat = BF16

    inputs = stream("i", a=("a", "lanes"), b=("b", "lanes"))


def signed_bits(low: int, high: int) -> int:
    """Two's complement width that holds every integer of [low, high]."""
    return max((-low - 1).bit_length() if low < 0 else 0, high.bit_length() if high > 0 else 0) + 1


@dataclass(frozen=True, kw_only=True)
class FloatUnpackParams(PipelinedParams):
    """Pattern to sign, exponent, significand and class.

    Value = (-1)^sign * significand * 2^(exponent - mantissa_bits); the significand is normalised
    (top bit set) for every finite nonzero value, subnormals included. Zero, infinity and NaN have
    their flag set and exponent and significand 0.
    """

    block: ClassVar[str] = "float_unpack"
    summary: ClassVar[str] = "float pattern to sign, exponent, significand and class"
    PRESETS: ClassVar = {"default": {}, "fp16": {"format": FP16}, "e4m3": {"format": E4M3}}

    format: FloatFormat = BF16
    operand_subnormals: Subnormals = Subnormals.KEEP

    inputs = stream("i", x="format")
    outputs = stream(
        "o",
        significand="format.significand_bits",
        exponent=signed("exponent_bits"),
        sign=1,
        zero=1,
        infinite=1,
        nan=1,
    )

    @property
    def exponent_bits(self) -> int:
        """Those of a signed exponent that also covers subnormals after normalisation."""
        fmt = self.format
        return signed_bits(fmt.min_exponent - fmt.mantissa_bits, fmt.max_exponent)


@dataclass(frozen=True, kw_only=True)
class FloatRoundParams(PipelinedParams):
    """The one rounder: an exact value, plus a sticky tail, to the nearest pattern of ``format``.

    Value = (-1)^sign * significand * 2^(exponent - (significand_bits - 1)), with leading zeros
    allowed; ``sticky`` says that something nonzero lies below the significand's last bit (it
    counts as less than half of that bit; the significand is then nonzero). Flags override: nan,
    then infinite, then the number. A zero significand gives a zero of the given sign.
    """

    block: ClassVar[str] = "float_round"
    summary: ClassVar[str] = "normalise and round a significand into a float format"
    PRESETS: ClassVar = {
        "default": {},
        "fp16": {"format": FP16},
        "e4m3": {"format": E4M3},
        "e2m1": {"format": E2M1},
        "toward_zero": {"rounding": Rounding.TOWARD_ZERO, "overflow": Overflow.SATURATE},
    }

    format: FloatFormat = BF16
    significand_bits: Annotated[int, within(1, 80)] = 24
    exponent_bits: Annotated[int, within(2, 16)] = 10
    rounding: Rounding = Rounding.NEAREST_EVEN
    overflow: Overflow = Overflow.INFINITY
    result_subnormals: Subnormals = Subnormals.KEEP

    inputs = stream(
        "i",
        significand="significand_bits",
        exponent=signed("exponent_bits"),
        sign=1,
        sticky=1,
        infinite=1,
        nan=1,
    )
    outputs = stream("o", y="format")

    @property
    def rules(self) -> FloatRules:
        return self.shared(FloatRules)


@dataclass(frozen=True, kw_only=True)
class FloatMulParams(FloatPairParams):
    """y = a * b, rounded once."""

    block: ClassVar[str] = "float_mul"
    summary: ClassVar[str] = "float multiplier, rounded once"
    PRESETS: ClassVar = {
        "bf16": {},
        "amx": _AMX,
        "fp16": {"a": FP16, "b": FP16, "out": FP16},
        "fp32": {"a": FP32, "b": FP32, "out": FP32},
        "fp16_to_fp32": {"a": FP16, "b": FP16, "out": FP32},
        "e4m3": {"a": E4M3, "b": E4M3, "out": E4M3},
        "pipelined": {"latency": 3},
    }


@dataclass(frozen=True, kw_only=True)
class FloatAddParams(FloatPairParams):
    """y = a + b, rounded once; an exact zero sum of opposite signs is +0."""

    block: ClassVar[str] = "float_add"
    summary: ClassVar[str] = "float adder, rounded once"
    PRESETS: ClassVar = {
        "bf16": {},
        "amx": _AMX,
        "fp16": {"a": FP16, "b": FP16, "out": FP16},
        "fp32": {"a": FP32, "b": FP32, "out": FP32},
        "e5m2": {"a": E5M2, "b": E5M2, "out": E5M2},
        "pipelined": {"latency": 4},
    }


@dataclass(frozen=True, kw_only=True)
class FloatConvertParams(FloatBlockParams):
    """One float format to another, rounded once."""

    block: ClassVar[str] = "float_convert"
    summary: ClassVar[str] = "float format conversion"
    PRESETS: ClassVar = {
        "default": {},
        "fp32_to_fp16": {"out": FP16},
        "bf16_to_fp32": {"a": BF16, "out": FP32},
        "fp16_to_e4m3": {"a": FP16, "out": E4M3},
        "fp16_to_e2m1": {"a": FP16, "out": E2M1},
        "e5m2_to_bf16": {"a": E5M2, "out": BF16},
        "pipelined": {"latency": 2},
    }

    a: FloatFormat = FP32
    out: FloatFormat = BF16

    inputs = stream("i", a=("a", "lanes"))


@dataclass(frozen=True, kw_only=True)
class IntToFloatParams(FloatBlockParams):
    """Two's complement integer to float, rounded once; 0 is +0."""

    block: ClassVar[str] = "int_to_float"
    summary: ClassVar[str] = "integer to float"
    PRESETS: ClassVar = {
        "default": {},
        "int32_to_fp32": {"bits": 32, "out": FP32},
        "int8_to_bf16": {"bits": 8, "out": BF16},
        "pipelined": {"latency": 2},
    }

    bits: Annotated[int, within(2, 64)] = 18
    out: FloatFormat = FP16

    inputs = stream("i", a=signed("bits", "lanes"))


@dataclass(frozen=True, kw_only=True)
class LeadingZerosParams(PipelinedParams):
    """Zeros above the highest set bit; ``width`` for zero."""

    block: ClassVar[str] = "leading_zeros"
    summary: ClassVar[str] = "leading-zero count"
    PRESETS: ClassVar = {"default": {}, "odd": {"width": 11}, "wide": {"width": 76}}

    width: Annotated[int, at_least(1)] = 24

    inputs = stream("i", x="width")
    outputs = stream("o", count="count_bits")

    @property
    def count_bits(self) -> int:
        return self.width.bit_length()


class ShiftDirection(Enum):
    LEFT = "left"
    RIGHT = "right"


@dataclass(frozen=True, kw_only=True)
class ShifterParams(PipelinedParams):
    """Logical shift by 0..width; ``sticky`` tells that a set bit was shifted out."""

    block: ClassVar[str] = "shifter"
    summary: ClassVar[str] = "logarithmic shifter with sticky bit"
    PRESETS: ClassVar = {
        "default": {},
        "left": {"direction": ShiftDirection.LEFT},
        "odd": {"width": 11},
    }

    width: Annotated[int, at_least(1)] = 32
    direction: ShiftDirection = ShiftDirection.RIGHT

    inputs = stream("i", x="width", amount="amount_bits")
    outputs = stream("o", y="width", sticky=1)

    @property
    def amount_bits(self) -> int:
        """Amounts above ``width`` are allowed and shift everything out."""
        return self.width.bit_length()


class AdderTreeStyle(Enum):
    """How many integers become one sum.

    ``BALANCED``: a tree of adders. ``CHAIN``: one adder after the other. ``CARRY_SAVE``: three rows
    become two, level by level, without a carry running; one adder at the end.
    """

    BALANCED = "balanced"
    CHAIN = "chain"
    CARRY_SAVE = "carry_save"


@dataclass(frozen=True, kw_only=True)
class AdderTreeParams(PipelinedParams):
    """Exact sum of ``terms`` integers."""

    block: ClassVar[str] = "adder_tree"
    summary: ClassVar[str] = "exact sum of many integers"
    PRESETS: ClassVar = {
        "default": {},
        "odd": {"terms": 13, "width": 7, "signed": False},
        "pipelined": {"latency": 2},
        "chain": {"style": AdderTreeStyle.CHAIN},
        "carry_save": {"style": AdderTreeStyle.CARRY_SAVE},
    }

    terms: Annotated[int, at_least(1)] = 64
    width: Annotated[int, at_least(1)] = 5
    signed: bool = True
    style: AdderTreeStyle = AdderTreeStyle.BALANCED

    inputs = stream("i", terms=("width", "terms", "signed"))
    outputs = stream("o", sum=("sum_bits", None, "signed"))

    @property
    def sum_bits(self) -> int:
        """Exact: ``terms`` extreme values cannot overflow."""
        return self.width + (self.terms - 1).bit_length()


class PrefixStyle(Enum):
    RIPPLE = "ripple"
    SKLANSKY = "sklansky"
    KOGGE_STONE = "kogge_stone"


@dataclass(frozen=True, kw_only=True)
class PrefixSumParams(PipelinedParams):
    """Exclusive prefix popcount: ``index[i]`` counts the set bits below bit i of ``mask``."""

    block: ClassVar[str] = "prefix_sum"
    summary: ClassVar[str] = "parallel prefix sum of a bit mask"
    PRESETS: ClassVar = {
        "default": {},
        "ripple": {"style": PrefixStyle.RIPPLE},
        "kogge_stone": {"style": PrefixStyle.KOGGE_STONE},
        "small": {"width": 8},
        "odd": {"width": 13},
        "pipelined": {"latency": 2},
    }

    width: Annotated[int, at_least(2)] = 32
    style: PrefixStyle = PrefixStyle.SKLANSKY

    inputs = stream("i", mask=(1, "width"))
    outputs = stream("o", index=("index_bits", "width"), total="count_bits")

    @property
    def index_bits(self) -> int:
        """An exclusive count is at most width - 1."""
        return (self.width - 1).bit_length()

    @property
    def count_bits(self) -> int:
        return self.width.bit_length()


@dataclass(frozen=True, kw_only=True)
class PopcountParams(PipelinedParams):
    """How many bits of ``mask`` are set."""

    block: ClassVar[str] = "popcount"
    summary: ClassVar[str] = "number of set bits"
    PRESETS: ClassVar = {"default": {}, "odd": {"width": 13}, "tile": {"width": 512, "latency": 2}}

    width: Annotated[int, at_least(1)] = 32

    inputs = stream("i", mask=(1, "width"))
    outputs = stream("o", count="count_bits")

    @property
    def count_bits(self) -> int:
        return self.width.bit_length()


@dataclass(frozen=True, kw_only=True)
class ExpandParams(PipelinedParams):
    """Triangular crossbar: ``y[i]`` is the next unused ``x`` where ``mask[i]`` is set, else 0.

    Lane i can only need x[0..i], hence the triangle.
    """

    block: ClassVar[str] = "expand"
    summary: ClassVar[str] = "expansion (triangular) crossbar"
    PRESETS: ClassVar = {
        "default": {},
        "small": {"lanes": 8},
        "tiny": {"lanes": 4, "width": 2},
        "pipelined": {"latency": 2},
    }

    lanes: Annotated[int, at_least(2)] = 32
    width: Annotated[int, at_least(1)] = 16

    inputs = stream("i", x=("width", "lanes"), mask=(1, "lanes"))
    outputs = stream("o", y=("width", "lanes"))


@dataclass(frozen=True, kw_only=True)
class MaxTreeParams(PipelinedParams):
    """Largest of ``terms`` unsigned integers."""

    block: ClassVar[str] = "max_tree"
    summary: ClassVar[str] = "largest of many unsigned integers"
    PRESETS: ClassVar = {
        "default": {},
        "odd": {"terms": 13, "width": 8},
        "pipelined": {"latency": 2},
    }

    terms: Annotated[int, at_least(1)] = 64
    width: Annotated[int, at_least(1)] = 5

    inputs = stream("i", terms=("width", "terms"))
    outputs = stream("o", max="width")


ARITH_BLOCKS = (
    FloatUnpackParams,
    FloatRoundParams,
    FloatMulParams,
    FloatAddParams,
    FloatConvertParams,
    IntToFloatParams,
    LeadingZerosParams,
    ShifterParams,
    AdderTreeParams,
    PrefixSumParams,
    PopcountParams,
    ExpandParams,
    MaxTreeParams,
)
