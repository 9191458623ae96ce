"""Second opinions on golden arithmetic, built on other means than golden's integers.

Golden takes patterns apart and rounds integers. Here values are ``float64`` or ``Fraction``:
numpy and ml_dtypes read the patterns, float64's own operations (made exact where they are not)
compute, and rounding is ``rint`` on a grid or a search for neighbours.
"""

from fractions import Fraction
from itertools import product

import ml_dtypes
import numpy as np
from numpy.typing import NDArray

from tilewright.golden.params.arith import FloatRules
from tilewright.golden.params.formats import FloatFormat, Overflow, Rounding, Specials, Subnormals

# Formats that no block names: any exponent and fraction width must do.
UNNAMED_FORMATS = [
    FloatFormat(name="e4m3_ieee", exponent_bits=4, mantissa_bits=3),
    FloatFormat(name="e3m4", exponent_bits=3, mantissa_bits=4),
]

DTYPES = {
    "bf16": ml_dtypes.bfloat16,
    "fp16": np.float16,
    "fp32": np.float32,
    "e5m2": ml_dtypes.float8_e5m2,
    "e4m3": ml_dtypes.float8_e4m3fn,
    "e3m2": ml_dtypes.float6_e3m2fn,
    "e2m3": ml_dtypes.float6_e2m3fn,
    "e2m1": ml_dtypes.float4_e2m1fn,
    "e4m3_ieee": ml_dtypes.float8_e4m3,
    "e3m4": ml_dtypes.float8_e3m4,
}

ALL_RULES = [
    FloatRules(rounding=r, overflow=o, operand_subnormals=i, result_subnormals=s)
    for r, o, i, s in product(Rounding, Overflow, Subnormals, Subnormals)
]


def rules_id(rules: FloatRules) -> str:
    parts = (rules.rounding, rules.overflow, rules.operand_subnormals, rules.result_subnormals)
    return "-".join(part.value for part in parts)


def word(fmt: FloatFormat) -> type[np.unsignedinteger]:
    """The dtype numpy and ml_dtypes store a pattern of ``fmt`` in."""
    return {1: np.uint8, 2: np.uint16, 4: np.uint32}[np.dtype(DTYPES[fmt.name]).itemsize]


def all_patterns(fmt: FloatFormat) -> NDArray:
    return np.arange(1 << fmt.bits).astype(word(fmt))


def values(fmt: FloatFormat, bits: NDArray, rules: FloatRules | None = None) -> NDArray[np.float64]:
    """The values of patterns by numpy or ml_dtypes, as operands under ``rules``."""
    with np.errstate(invalid="ignore"):  # a signalling NaN is converted to a quiet one
        result = bits.astype(word(fmt)).view(DTYPES[fmt.name]).astype(np.float64)
    if rules is not None and rules.operand_subnormals is Subnormals.FLUSH:
        small = np.abs(result) < 2.0**fmt.min_exponent
        result = np.where(small, np.copysign(0.0, result), result)
    return result


def canonical(fmt: FloatFormat, bits: NDArray) -> NDArray:
    """``bits`` with every NaN replaced by the project's one NaN."""
    if fmt.nan_bits is None:
        return bits
    return np.where(np.isnan(values(fmt, bits)), fmt.nan_bits, bits).astype(bits.dtype)


def sum_to_odd(a: NDArray[np.float64], b: NDArray[np.float64]) -> NDArray[np.float64]:
    """a + b in float64, rounded to odd: a later rounding to 51 bits or fewer is then exact.

    Knuth's two-sum gives the error of the float64 sum; where there is one and the sum's last bit
    is even, the sum moves one step toward the exact value (Boldo and Melquiond, "Emulation of FMA
    and correctly rounded sums", 2008).
    """
    with np.errstate(invalid="ignore"):
        total = a + b
        b_part = total - a
        error = (a - (total - b_part)) + (b - b_part)
        even = total.view(np.int64) % 2 == 0
        toward = np.nextafter(total, np.where(error > 0, np.inf, -np.inf))
        return np.where(np.isfinite(total) & (error != 0) & even, toward, total)


def nearest(fmt: FloatFormat, exact: NDArray[np.float64], rules: FloatRules) -> NDArray:
    """Patterns of float64 values (exact or rounded to odd), rounded once by ``rint`` on a grid."""
    magnitude = np.abs(exact)
    finite = np.isfinite(exact)
    _, exponent = np.frexp(np.where(finite, magnitude, 0.0))  # magnitude < 2^exponent
    flush = rules.result_subnormals is Subnormals.FLUSH
    # Results that flush are rounded as if the exponent had no lower limit.
    step = exponent - 1 if flush else np.maximum(exponent - 1, fmt.min_exponent)
    step -= fmt.mantissa_bits
    to_whole = np.rint if rules.rounding is Rounding.NEAREST_EVEN else np.trunc
    grid = np.ldexp(to_whole(np.ldexp(np.where(finite, magnitude, 0.0), -step)), step)
    if flush:
        grid = np.where(grid < 2.0**fmt.min_exponent, 0.0, grid)
    largest = values(fmt, np.array([fmt.max_finite_bits]))[0]
    no_infinity = largest if fmt.specials is Specials.NONE else np.nan
    infinity = np.inf if fmt.specials is Specials.IEEE else no_infinity
    beyond = largest if rules.overflow is Overflow.SATURATE else infinity
    toward_zero = rules.rounding is Rounding.TOWARD_ZERO
    grid = np.where(grid > largest, largest if toward_zero else beyond, grid)
    if fmt.specials is Specials.IEEE:
        grid = np.where(np.isinf(exact), np.inf, grid)
    else:
        grid = np.where(np.isinf(exact), beyond, grid)
    # Every grid value exists in the format, so ml_dtypes has nothing left to round.
    signed = np.copysign(grid, exact)
    bits = signed.astype(np.float32).astype(DTYPES[fmt.name]).view(word(fmt))
    nan = 1 << (fmt.bits - 1) if fmt.nan_bits is None else fmt.nan_bits
    return np.where(np.isnan(exact) | np.isnan(grid), nan, bits).astype(word(fmt))


def fraction(fmt: FloatFormat, bits: int) -> Fraction:
    """The exact value of one finite pattern."""
    return Fraction(float(values(fmt, np.array([bits]))[0]))


def without_limits(fmt: FloatFormat, exact: Fraction, rounding: Rounding) -> Fraction:
    """``exact`` > 0 at the precision of ``fmt``, as if its exponent had no limits."""
    exponent = exact.numerator.bit_length() - exact.denominator.bit_length()
    if exact < Fraction(2) ** exponent:
        exponent -= 1
    step = Fraction(2) ** (exponent - fmt.mantissa_bits)
    toward_zero = rounding is Rounding.TOWARD_ZERO
    return step * (exact // step if toward_zero else round(exact / step))  # a tie: to even


def nearest_to_fraction(
    fmt: FloatFormat, exact: Fraction, rounding: Rounding, flush: bool = False
) -> int:
    """Pattern of the magnitude nearest to ``exact`` >= 0, found by bisection over all patterns.

    The pattern above the largest finite one counts as if it went on in the same steps; rounding to
    it (or to anything above) means overflow and gives ``max_finite_bits + 1``. To ``flush``, what
    is below the smallest normal when rounded :func:`without_limits` becomes 0.
    """
    if flush and exact:
        exact = without_limits(fmt, exact, rounding)
        if exact < Fraction(2) ** fmt.min_exponent:
            return 0
    top = fmt.max_finite_bits
    beyond = 2 * fraction(fmt, top) - fraction(fmt, top - 1)
    if exact >= beyond:
        return top if rounding is Rounding.TOWARD_ZERO else top + 1
    low, high = 0, top + 1  # value(low) <= exact < value(high)
    while high - low > 1:
        middle = (low + high) // 2
        if fraction(fmt, middle) <= exact:
            low = middle
        else:
            high = middle
    below = exact - fraction(fmt, low)
    above = (beyond if high == top + 1 else fraction(fmt, high)) - exact
    if rounding is Rounding.TOWARD_ZERO or below < above or (below == above and low % 2 == 0):
        return low
    return high
