"""Number formats: widths, biases, infinities and NaNs, declared once for golden models and RTL."""

from dataclasses import dataclass
from enum import Enum
from typing import Annotated

from tilewright.golden.params.block import Limited, at_least, within


class Specials(Enum):
    """How a float format spends its topmost exponent."""

    IEEE = "ieee"  # whole top exponent: infinities and NaNs
    NAN_ONLY = "nan_only"  # only all-ones exponent and mantissa is NaN; no infinity (OCP e4m3)
    NONE = "none"  # every pattern is finite (OCP 6- and 4-bit formats)


class Rounding(Enum):
    NEAREST_EVEN = "nearest_even"
    TOWARD_ZERO = "toward_zero"


class Overflow(Enum):
    """The result of rounding beyond the largest finite magnitude.

    ``INFINITY`` means the format's own answer: infinity, NaN where there is no infinity (e4m3),
    and saturation where there is neither (6- and 4-bit formats). Infinite *operands* follow the
    same rule, except that ``SATURATE`` keeps infinity in formats that have it.

    Rounding toward zero saturates finite results in either case, as in IEEE 754.
    """

    INFINITY = "infinity"
    SATURATE = "saturate"


class Subnormals(Enum):
    """``FLUSH``: a subnormal counts as (operand) or becomes (result) zero of its own sign.

    A result is rounded to full precision as if the exponent had no lower limit, and flushed if its
    magnitude is then below the smallest normal, as AMX does, and x86 with flush-to-zero set.
    """

    KEEP = "keep"
    FLUSH = "flush"


@dataclass(frozen=True, kw_only=True)
class FloatFormat(Limited):
    """Sign, ``exponent_bits``, ``mantissa_bits`` of stored fraction; bias 2**(e-1) - 1."""

    name: str
    exponent_bits: Annotated[int, within(2, 8)]
    mantissa_bits: Annotated[int, within(1, 23)]
    specials: Specials = Specials.IEEE

    def __str__(self) -> str:
        return self.name

    @property
    def bits(self) -> int:
        return 1 + self.exponent_bits + self.mantissa_bits

    @property
    def bias(self) -> int:
        return (1 << (self.exponent_bits - 1)) - 1

    @property
    def significand_bits(self) -> int:
        """Fraction plus the hidden bit."""
        return self.mantissa_bits + 1

    @property
    def min_exponent(self) -> int:
        """Unbiased exponent of the smallest normal, shared by all subnormals."""
        return 1 - self.bias

    @property
    def max_exponent(self) -> int:
        """Unbiased exponent of the largest finite value."""
        return self.max_finite_bits // (1 << self.mantissa_bits) - self.bias

    @property
    def max_finite_bits(self) -> int:
        """Pattern of the largest finite positive value."""
        top = (1 << (self.bits - 1)) - 1
        match self.specials:
            case Specials.IEEE:
                return top - (1 << self.mantissa_bits)
            case Specials.NAN_ONLY:
                return top - 1
            case Specials.NONE:
                return top

    @property
    def infinity_bits(self) -> int | None:
        """Pattern of +infinity, or None where the format has none."""
        return self.max_finite_bits + 1 if self.specials is Specials.IEEE else None

    @property
    def nan_bits(self) -> int | None:
        """The one canonical quiet NaN, or None where the format has none."""
        match self.specials:
            case Specials.IEEE:
                return self.max_finite_bits + 1 + (1 << (self.mantissa_bits - 1))
            case Specials.NAN_ONLY:
                return (1 << (self.bits - 1)) - 1
            case Specials.NONE:
                return None


@dataclass(frozen=True, kw_only=True)
class ScaleFormat:
    """Unsigned power of two: byte ``e`` means 2**(e - bias); the all-ones byte is NaN."""

    name: str
    bits: int = 8

    def __str__(self) -> str:
        return self.name

    @property
    def bias(self) -> int:
        return (1 << (self.bits - 1)) - 1

    @property
    def significand_bits(self) -> int:
        """Bits of the significand: only the hidden one."""
        return 1

    @property
    def nan_bits(self) -> int:
        return (1 << self.bits) - 1


@dataclass(frozen=True, kw_only=True)
class IntFormat(Limited):
    """Two's complement integer of ``bits`` bits."""

    bits: Annotated[int, within(1, 32)]

    def __str__(self) -> str:
        return self.name

    @property
    def name(self) -> str:
        return f"int{self.bits}"

    @property
    def minimum(self) -> int:
        return -(1 << (self.bits - 1))

    @property
    def maximum(self) -> int:
        return (1 << (self.bits - 1)) - 1


@dataclass(frozen=True, kw_only=True)
class BlockFormat(Limited):
    """Block floating point over fp16: ``group`` values share the largest exponent.

    The hidden bit counts among the ``mantissa_bits``, the sign does not.
    """

    group: Annotated[int, at_least(1)]
    mantissa_bits: Annotated[int, within(1, 16)]

    def __str__(self) -> str:
        return self.name

    @property
    def name(self) -> str:
        return f"bfp{self.mantissa_bits}g{self.group}"

    @property
    def exponent_bits(self) -> int:
        """One exponent field per group, that of the source format."""
        return FP16.exponent_bits

    @property
    def group_bits(self) -> int:
        """Storage of one whole group: sign and mantissa per element, one exponent."""
        return self.group * (1 + self.mantissa_bits) + self.exponent_bits


BF16 = FloatFormat(name="bf16", exponent_bits=8, mantissa_bits=7)
FP16 = FloatFormat(name="fp16", exponent_bits=5, mantissa_bits=10)
FP32 = FloatFormat(name="fp32", exponent_bits=8, mantissa_bits=23)
E5M2 = FloatFormat(name="e5m2", exponent_bits=5, mantissa_bits=2)
E4M3 = FloatFormat(name="e4m3", exponent_bits=4, mantissa_bits=3, specials=Specials.NAN_ONLY)
E3M2 = FloatFormat(name="e3m2", exponent_bits=3, mantissa_bits=2, specials=Specials.NONE)
E2M3 = FloatFormat(name="e2m3", exponent_bits=2, mantissa_bits=3, specials=Specials.NONE)
E2M1 = FloatFormat(name="e2m1", exponent_bits=2, mantissa_bits=1, specials=Specials.NONE)
E8M0 = ScaleFormat(name="e8m0")

FLOAT_FORMATS = {f.name: f for f in (BF16, FP16, FP32, E5M2, E4M3, E3M2, E2M3, E2M1)}


def float_format(name: str) -> FloatFormat:
    try:
        return FLOAT_FORMATS[name]
    except KeyError:
        known = ", ".join(FLOAT_FORMATS)
        raise ValueError(f"unknown float format {name!r}; known: {known}") from None
