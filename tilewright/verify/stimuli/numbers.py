"""Random payloads of any port, and floats where rounding, overflow and underflow turn."""

import numpy as np
from numpy.random import Generator
from numpy.typing import NDArray

from tilewright.golden.bits import bits_dtype, decode, encode
from tilewright.golden.params.block import Field, Port
from tilewright.golden.params.formats import FloatFormat
from tilewright.golden.payload import Columns


def random_columns(port: Port, rng: Generator, cases: int) -> Columns:
    """Draw ``cases`` payloads: all fields smallest, all largest, then uniformly random bits."""
    return {field.name: _random_field(field, rng, cases) for field in port.fields}


def _random_field(field: Field, rng: Generator, cases: int) -> NDArray:
    shape = (cases,) if field.count is None else (cases, field.count)
    low = -(1 << (field.bits - 1)) if field.signed else 0
    high = low + (1 << field.bits) - 1
    if field.bits <= 64:
        dtype = np.int64 if field.signed else np.uint64
        values = rng.integers(low, high, size=shape, dtype=dtype, endpoint=True)
    else:
        size = -(-field.bits // 8)
        data = rng.bytes(size * int(np.prod(shape)))
        words = (data[k : k + size] for k in range(0, len(data), size))
        draws = [low + int.from_bytes(w, "little") % (1 << field.bits) for w in words]
        values = np.array(draws, dtype=object).reshape(shape)
    values[:1], values[1:2] = low, high
    return values


def random_masks(rng: Generator, cases: int, width: int) -> NDArray:
    """Draw ``(cases, width)`` zeros and ones: all clear, all set, then every density alike."""
    density = rng.random((cases, 1))
    density[:1], density[1:2] = 0.0, 1.0
    return (rng.random((cases, width)) < density).astype(np.int64)


def shortened(fmt: FloatFormat, bits: NDArray, rng: Generator) -> NDArray:
    """Clear some lowest fraction bits of ``bits``: short products and sums make exact ties."""
    cleared = rng.integers(0, fmt.mantissa_bits, len(bits), endpoint=True)
    return (bits.astype(np.int64) >> cleared << cleared).astype(bits_dtype(fmt))


def edge_values(fmt: FloatFormat, rng: Generator, cases: int) -> NDArray[np.float64]:
    """Draw values about the ends of ``fmt``: half around its subnormals, half around overflow."""
    low = rng.integers(fmt.min_exponent - fmt.mantissa_bits - 2, fmt.min_exponent + 2, cases)
    high = rng.integers(fmt.max_exponent - 1, fmt.max_exponent + 2, cases)
    exponent = np.where(rng.random(cases) < 0.5, low, high)
    sign = rng.choice([-1.0, 1.0], cases)
    return sign * np.ldexp(1 + rng.random(cases), exponent)


def subnormal_ties(
    a: FloatFormat, b: FloatFormat, out: FloatFormat, rng: Generator, cases: int
) -> tuple[NDArray, NDArray]:
    """Draw pairs whose products lie halfway between subnormals of ``out``.

    Half of the exponents are at one end of their range, where one factor is subnormal itself. Where
    no product is as small as that, factors are the smallest.
    """
    longest = max(1, min(a.significand_bits, out.mantissa_bits))
    bits_a = rng.integers(1, longest, cases, endpoint=True)
    bits_b = np.minimum(b.significand_bits, out.mantissa_bits + 1 - bits_a)
    odd_a, odd_b = (rng.integers(0, 1 << bits) | 1 for bits in (bits_a, bits_b))
    product = out.min_exponent - out.mantissa_bits - 1
    low, low_b = (fmt.min_exponent - fmt.mantissa_bits for fmt in (a, b))
    high = max(low, product - low_b)
    exponent = rng.integers(low, high, cases, endpoint=True)
    near = rng.integers(0, a.mantissa_bits, cases, endpoint=True)
    end = np.clip(np.where(rng.random(cases) < 0.5, low + near, high - near), low, high)
    exponent = np.where(rng.random(cases) < 0.5, exponent, end)
    factor_a = np.ldexp(rng.choice([-1.0, 1.0], cases) * odd_a, exponent)
    factor_b = np.ldexp(odd_b, np.maximum(product - exponent, low_b))
    return encode(a, factor_a), encode(b, factor_b)


def lone_bits(fmt: FloatFormat) -> NDArray:
    """Patterns with the highest exponent and one bit of the fraction: barely NaNs."""
    highest = (1 << fmt.exponent_bits) - 1 << fmt.mantissa_bits
    return (highest | 1 << np.arange(fmt.mantissa_bits)).astype(bits_dtype(fmt))


def small_patterns(fmt: FloatFormat, rng: Generator, cases: int) -> NDArray:
    """Draw patterns about the lowest exponents, subnormals among them: any two are close."""
    exponent = rng.integers(0, min(2 * fmt.mantissa_bits + 3, 1 << fmt.exponent_bits) - 1, cases)
    fraction = rng.integers(0, 1 << fmt.mantissa_bits, cases)
    sign = rng.integers(0, 2, cases) << (fmt.bits - 1)
    return (sign | exponent << fmt.mantissa_bits | fraction).astype(bits_dtype(fmt))


def around_midpoints(
    source: FloatFormat, result: FloatFormat, rng: Generator, cases: int
) -> NDArray:
    """Draw patterns of ``source`` at midpoints between ``result`` values, and just next to them."""
    lower = rng.integers(0, result.max_finite_bits, cases)
    midpoint = (decode(result, lower) + decode(result, lower + 1)) / 2
    nearest = encode(source, midpoint).astype(np.int64)
    top = (1 << (source.bits - 1)) - 1
    moved = np.clip(nearest + rng.integers(-1, 1, cases, endpoint=True), 0, top)
    sign = rng.integers(0, 2, cases) << (source.bits - 1)
    return (moved | sign).astype(bits_dtype(source))
