"""Seeded operands for every bench: corner cases first, then random patterns that interact.

Uniform random patterns of two floats almost never have close exponents, so an adder fed with them
hardly ever aligns, cancels or rounds. A share of the random operands is therefore made to.
"""

from collections.abc import Sequence
from functools import reduce

import numpy as np
from numpy.typing import NDArray

from tilewright.golden.bits import bits_dtype, decode, encode
from tilewright.golden.params.formats import FloatFormat


def corners(fmt: FloatFormat) -> NDArray:
    """Patterns at every edge of ``fmt``, each with both signs, positive ones first."""
    one = fmt.bias << fmt.mantissa_bits
    half_fraction = 1 << (fmt.mantissa_bits - 1)
    smallest_normal = 1 << fmt.mantissa_bits
    top = (1 << (fmt.bits - 1)) - 1
    positive = [
        *(0, 1, 2, smallest_normal - 1),  # zero, smallest subnormals, largest subnormal
        *(smallest_normal, smallest_normal + 1, 2 * smallest_normal),
        *(one - smallest_normal, one - 1, one, one + 1, one + half_fraction),
        *(one + smallest_normal - 1, one + smallest_normal),
        *(fmt.max_finite_bits - 1, fmt.max_finite_bits),
    ]
    if fmt.infinity_bits is not None:
        positive += [fmt.infinity_bits, fmt.infinity_bits + 1]  # the second is a signalling NaN
    if fmt.nan_bits is not None:
        positive += [fmt.nan_bits, top]
    unique = np.array(list(dict.fromkeys(positive)), bits_dtype(fmt))
    return np.concatenate([unique, unique | bits_dtype(fmt).type(1 << (fmt.bits - 1))])


def operands(fmts: Sequence[FloatFormat], rng: np.random.Generator, cases: int) -> list[NDArray]:
    """``cases`` operand sets, one array per format of ``fmts``.

    First the combinations of all corners, or as many as fill half of the cases, drawn at random.
    Half of the rest is uniform over the patterns; in the other half the last operand lies near
    minus the product of those before it, so that a sum or fused sum with it aligns and cancels.
    """
    edge = [corners(fmt) for fmt in fmts]
    sizes = tuple(len(e) for e in edge)
    count = min(int(np.prod(sizes)), (cases + 1) // 2)
    chosen = np.sort(rng.choice(int(np.prod(sizes)), count, replace=False))
    picked = [e[k] for e, k in zip(edge, np.unravel_index(chosen, sizes), strict=True)]
    random = [rng.integers(0, 1 << f.bits, cases - count, bits_dtype(f)) for f in fmts]
    if len(fmts) > 1:
        near = slice((cases - count) // 2, None)
        random[-1][near] = _opposite(fmts, [r[near] for r in random[:-1]], rng)
    return [np.concatenate(pair) for pair in zip(picked, random, strict=True)]


def _opposite(
    fmts: Sequence[FloatFormat], factors: Sequence[NDArray], rng: np.random.Generator
) -> NDArray:
    """Patterns of the last format near minus the product of ``factors``, off by up to 2^k ulps."""
    *factor_fmts, fmt = fmts
    with np.errstate(invalid="ignore"):  # infinity times zero
        values = reduce(np.multiply, map(decode, factor_fmts, factors))
    exact = encode(fmt, -values).astype(np.int64)
    reach = 1 << rng.integers(0, fmt.mantissa_bits + 4, len(exact))
    noise = rng.integers(-reach, reach, endpoint=True) * (rng.random(len(exact)) < 0.75)
    sign_bit = 1 << (fmt.bits - 1)
    magnitude = np.clip((exact & (sign_bit - 1)) + noise, 0, sign_bit - 1)
    return ((exact & sign_bit) | magnitude).astype(bits_dtype(fmt))
