"""Number formats to and from bit patterns; the only place where the project rounds a float.

Patterns are integer arrays (any integer dtype in, :func:`bits_dtype` out) and every function is
vectorised over whatever shape it is given. Internally signs and flags are bool, exponents and
significands int64.
"""

from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

from tilewright.golden.parallel import elementwise
from tilewright.golden.params.arith import IEEE_RULES, FloatRules
from tilewright.golden.params.formats import (
    FloatFormat,
    IntFormat,
    Overflow,
    Rounding,
    ScaleFormat,
    Specials,
    Subnormals,
)

MAX_SIGNIFICAND_BITS = 62  # so that a significand, and the weight above it, fit an int64

Flags = NDArray[np.bool_]
Int64s = NDArray[np.int64]


class Unpacked(NamedTuple):
    """Patterns taken apart; the contract is that of ``FloatUnpackParams``.

    Value = (-1)^sign * significand * 2^(exponent - mantissa_bits); the significand of a finite
    nonzero value has its top bit set. Zero, infinity and NaN have exponent and significand 0.
    """

    sign: Flags
    exponent: Int64s
    significand: Int64s
    zero: Flags
    infinite: Flags
    nan: Flags


def bits_dtype(fmt: FloatFormat | ScaleFormat | IntFormat) -> np.dtype:
    """The smallest unsigned dtype that holds a pattern of ``fmt``."""
    return np.min_scalar_type((1 << fmt.bits) - 1)


def patterns(fmt: FloatFormat | ScaleFormat | IntFormat, bits: ArrayLike) -> NDArray:
    """``bits`` as an array, refused unless every element is a pattern of ``fmt``."""
    array = np.asarray(bits)
    if array.dtype.kind not in "iu":
        raise ValueError(f"{fmt} patterns must be integers, not {array.dtype}")
    fits = array.dtype.kind == "u" and array.dtype.itemsize * 8 <= fmt.bits
    if not fits and array.size:
        for extreme in (int(array.min()), int(array.max())):
            if not 0 <= extreme < 1 << fmt.bits:
                raise ValueError(f"{extreme:#x} is not a {fmt.bits}-bit pattern of {fmt}")
    return array


def unpack(
    fmt: FloatFormat | ScaleFormat,
    bits: ArrayLike,
    operand_subnormals: Subnormals = Subnormals.KEEP,
) -> Unpacked:
    """Patterns as sign, exponent, significand and class; a scale's significand is the bit 1."""
    words = patterns(fmt, bits).astype(np.int64)
    if isinstance(fmt, ScaleFormat):
        never = np.zeros(words.shape, bool)
        nan = words == fmt.nan_bits
        exponent = np.where(nan, 0, words - fmt.bias)
        return Unpacked(never, exponent, (~nan).astype(np.int64), never, never, nan)
    sign = words >> (fmt.bits - 1) != 0
    magnitude = words & ((1 << (fmt.bits - 1)) - 1)
    field = magnitude >> fmt.mantissa_bits
    normal = field != 0
    last = _infinity_or_max(fmt)
    infinite = (magnitude == last) & (fmt.infinity_bits is not None)
    nan = magnitude > last
    zero = magnitude == 0 if operand_subnormals is Subnormals.KEEP else ~normal
    # With its exponent field at 1 (the hidden bit) or 0, the pattern is the significand.
    significand = magnitude - ((field - normal) << fmt.mantissa_bits)
    lift = fmt.significand_bits - bit_length(significand)
    exponent = np.maximum(field, 1) - fmt.bias - lift
    number = ~(zero | infinite | nan)
    return Unpacked(sign, exponent * number, (significand << lift) * number, zero, infinite, nan)


def round_pack(
    fmt: FloatFormat,
    sign: ArrayLike,
    exponent: ArrayLike,
    significand: ArrayLike,
    sticky: ArrayLike = False,
    rules: FloatRules = IEEE_RULES,
    *,
    significand_bits: int,
    infinite: ArrayLike = False,
    nan: ArrayLike = False,
) -> NDArray:
    """The one rounder; the contract is that of ``FloatRoundParams``.

    Value = (-1)^sign * significand * 2^(exponent - (significand_bits - 1)), leading zeros allowed;
    ``sticky``: something nonzero, less than half of the significand's last bit, lies below it.
    ``nan`` overrides ``infinite``, which overrides the number. NaN is the canonical one; a format
    without NaN gets -0 for it, which is what ml_dtypes makes of a canonical NaN.
    """
    if not 1 <= significand_bits <= MAX_SIGNIFICAND_BITS:
        raise ValueError(
            f"significand_bits must be 1..{MAX_SIGNIFICAND_BITS}, not {significand_bits!r}"
        )

    def piece(
        sign: NDArray,
        exponent: NDArray,
        significand: NDArray,
        sticky: NDArray,
        infinite: NDArray,
        nan: NDArray,
    ) -> NDArray:
        words = significand.astype(np.int64)
        for extreme in (int(words.min()), int(words.max())):
            if not 0 <= extreme < 1 << significand_bits:
                raise ValueError(f"significand {extreme:#x} is not a {significand_bits}-bit number")
        lowest = exponent.astype(np.int64) - (significand_bits - 1)
        binade = lowest + bit_length(words) - 1
        if rules.result_subnormals is Subnormals.KEEP:  # else as if the exponent had no lower limit
            binade = np.maximum(binade, fmt.min_exponent)
        drop = binade - fmt.mantissa_bits - lowest
        aligned = words << np.clip(-drop, 0, fmt.significand_bits)
        kept = _round_off(aligned, np.clip(drop, 0, 63), sticky.astype(bool), rules.rounding)
        # A carry out of the fraction steps into the exponent field by itself.
        magnitude = kept + ((binade - fmt.min_exponent) << fmt.mantissa_bits)
        magnitude[words == 0] = 0
        return _finish(
            fmt, magnitude, rules, sign.astype(bool), infinite.astype(bool), nan.astype(bool)
        )

    return elementwise(piece, bits_dtype(fmt), sign, exponent, significand, sticky, infinite, nan)


def encode(fmt: FloatFormat, values: ArrayLike, rules: FloatRules = IEEE_RULES) -> NDArray:
    """Nearest patterns of float64 ``values``, each rounded once."""

    def piece(values: NDArray) -> NDArray:
        words = _float64_words(values)
        field = (words >> 52) & 0x7FF
        fraction = words & ((1 << 52) - 1)
        return round_pack(
            fmt,
            words < 0,
            np.maximum(field, 1) - 1023,
            fraction | ((field != 0).astype(np.int64) << 52),
            False,
            rules,
            significand_bits=53,
            infinite=(field == 0x7FF) & (fraction == 0),
            nan=(field == 0x7FF) & (fraction != 0),
        )

    return elementwise(piece, bits_dtype(fmt), values)


def decode(fmt: FloatFormat, bits: ArrayLike) -> NDArray[np.float64]:
    """Exact float64 values of ``bits``; every NaN becomes float64's positive quiet NaN."""

    def piece(bits: NDArray) -> NDArray:
        x = unpack(fmt, bits)
        values = x.significand * _power_of_two(x.exponent - fmt.mantissa_bits)
        values[x.infinite] = np.inf
        values.view(np.int64)[...] |= x.sign.astype(np.int64) << 63
        values[x.nan] = np.nan
        return values

    return elementwise(piece, np.float64, patterns(fmt, bits))


def decode_scale(fmt: ScaleFormat, bits: ArrayLike) -> NDArray[np.float64]:

    def piece(bits: NDArray) -> NDArray:
        words = bits.astype(np.int64)
        return np.where(words == fmt.nan_bits, np.nan, _power_of_two(words - fmt.bias))

    return elementwise(piece, np.float64, patterns(fmt, bits))


def encode_int(
    fmt: IntFormat, values: ArrayLike, rounding: Rounding = Rounding.NEAREST_EVEN
) -> NDArray:
    """Two's complement patterns of float64 ``values``, rounded and saturated; NaN is refused."""
    values = np.asarray(values, np.float64)
    if np.isnan(values).any():
        position = tuple(int(k) for k in np.argwhere(np.isnan(values))[0])
        raise ValueError(f"NaN at {position} has no {fmt} value")

    def piece(values: NDArray) -> NDArray:
        whole = np.rint(values) if rounding is Rounding.NEAREST_EVEN else np.trunc(values)
        return np.clip(whole, fmt.minimum, fmt.maximum).astype(np.int64) & ((1 << fmt.bits) - 1)

    return elementwise(piece, bits_dtype(fmt), values)


def decode_int(fmt: IntFormat, bits: ArrayLike) -> Int64s:
    words = patterns(fmt, bits).astype(np.int64)
    return words - ((words >> (fmt.bits - 1)) << fmt.bits)


def bit_length(words: Int64s) -> Int64s:
    """Position above the leading one of integers >= 0; 0 for zero."""
    # Without the bit below the leading one, float64 cannot round up to the next power of two.
    field = (words & ~(words >> 1)).astype(np.float64).view(np.int64) >> 52
    return np.maximum(field - 1022, 0)


def _finish(
    fmt: FloatFormat,
    magnitude: NDArray,
    rules: FloatRules,
    sign: Flags,
    infinite: Flags,
    nan: Flags,
) -> NDArray:
    """Patterns of rounded ``magnitude`` patterns that know no limit: overflow, flush, specials."""
    cut = rules.rounding is Rounding.TOWARD_ZERO  # which never leaves the finite magnitudes
    saturate = rules.overflow is Overflow.SATURATE
    overflow = magnitude > fmt.max_finite_bits
    if fmt.specials is Specials.NAN_ONLY and not saturate:
        nan = nan | infinite if cut else nan | infinite | overflow
    infinity = _infinity_or_max(fmt)
    # Writing through a mask costs next to nothing where it is rarely set; np.where always pays.
    magnitude[overflow] = fmt.max_finite_bits if saturate or cut else infinity
    if rules.result_subnormals is Subnormals.FLUSH:
        magnitude[magnitude < 1 << fmt.mantissa_bits] = 0
    magnitude[infinite] = infinity
    sign_bit = fmt.bits - 1
    bits = magnitude | (sign.astype(magnitude.dtype) << sign_bit)
    bits[nan] = 1 << sign_bit if fmt.nan_bits is None else fmt.nan_bits
    return bits.astype(bits_dtype(fmt))


def _round_off(
    words: NDArray[np.int64], drop: NDArray[np.int64], sticky: Flags, rounding: Rounding
) -> NDArray:
    """``words`` >= 0 without their ``drop`` lowest bits, rounded."""
    kept = words >> drop
    if rounding is Rounding.TOWARD_ZERO:
        return kept
    # Add half of the last kept bit, less one unit unless that bit is odd or a tail follows.
    kept |= sticky
    some = np.minimum(drop, 1)
    kept &= some  # bit 0 alone, and nothing where nothing is dropped
    kept += words
    kept += (1 << (drop - some)) - 1
    kept >>= drop
    return kept


def _infinity_or_max(fmt: FloatFormat) -> int:
    return fmt.max_finite_bits if fmt.infinity_bits is None else fmt.infinity_bits


def _float64_words(values: NDArray) -> Int64s:
    with np.errstate(invalid="ignore"):  # a signalling NaN of a shorter dtype becomes a quiet one
        return np.ascontiguousarray(values, np.float64).view(np.int64)


def _power_of_two(exponent: Int64s) -> NDArray[np.float64]:
    return ((exponent + 1023) << 52).view(np.float64)
