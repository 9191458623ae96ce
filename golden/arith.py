"""Float arithmetic on bit patterns: exact inside, rounded once.

The one rounder is :func:`tilewright.golden.bits.round_pack`.

Every operation takes operands in any formats and gives any format. NaN results are the canonical
NaN; inf - inf and 0 * inf are NaN; an exact zero sum of opposite signs is +0 in every rounding.
An operand may also be in a scale format (e8m0).
"""

import numpy as np
from numpy.typing import ArrayLike, NDArray

from tilewright.golden.bits import Unpacked, bits_dtype, patterns, round_pack, unpack
from tilewright.golden.parallel import elementwise
from tilewright.golden.params.arith import IEEE_RULES, FloatRules
from tilewright.golden.params.formats import FloatFormat, ScaleFormat

OperandFormat = FloatFormat | ScaleFormat

# Width to which both terms of a sum are lifted: their sum still fits round_pack's 62 bits, and the
# widest term (48 bits, a product of two fp32 significands) leaves 13 bits below it. If the smaller
# term is shifted further than that, the result loses at most one leading bit to cancellation and
# keeps far more than 24 bits, so the tail only matters as a sticky bit.
_SUM_BITS = 61

_BELOW_EVERYTHING = -(1 << 20)  # keeps a term without significand from being the larger one


def multiply(
    a_fmt: OperandFormat,
    b_fmt: OperandFormat,
    out_fmt: FloatFormat,
    a: ArrayLike,
    b: ArrayLike,
    rules: FloatRules = IEEE_RULES,
) -> NDArray:
    """a * b, rounded once."""

    def piece(a: NDArray, b: NDArray) -> NDArray:
        product, width = _product(a_fmt, b_fmt, a, b, rules)
        return _pack(out_fmt, product, width, rules)

    return elementwise(piece, bits_dtype(out_fmt), patterns(a_fmt, a), patterns(b_fmt, b))


def add(
    a_fmt: OperandFormat,
    b_fmt: OperandFormat,
    out_fmt: FloatFormat,
    a: ArrayLike,
    b: ArrayLike,
    rules: FloatRules = IEEE_RULES,
) -> NDArray:
    """a + b, rounded once."""

    def piece(a: NDArray, b: NDArray) -> NDArray:
        x = unpack(a_fmt, a, rules.operand_subnormals)
        y = unpack(b_fmt, b, rules.operand_subnormals)
        return _sum(out_fmt, x, a_fmt.significand_bits, y, b_fmt.significand_bits, rules)

    return elementwise(piece, bits_dtype(out_fmt), patterns(a_fmt, a), patterns(b_fmt, b))


def fma(
    a_fmt: OperandFormat,
    b_fmt: OperandFormat,
    c_fmt: OperandFormat,
    out_fmt: FloatFormat,
    a: ArrayLike,
    b: ArrayLike,
    c: ArrayLike,
    rules: FloatRules = IEEE_RULES,
) -> NDArray:
    """a * b + c, rounded once."""

    def piece(a: NDArray, b: NDArray, c: NDArray) -> NDArray:
        product, width = _product(a_fmt, b_fmt, a, b, rules)
        short = (product.significand >> (width - 1)) ^ 1  # a product of 1.x's may be one bit short
        product = product._replace(
            exponent=product.exponent - short, significand=product.significand << short
        )
        z = unpack(c_fmt, c, rules.operand_subnormals)
        return _sum(out_fmt, product, width, z, c_fmt.significand_bits, rules)

    return elementwise(
        piece, bits_dtype(out_fmt), patterns(a_fmt, a), patterns(b_fmt, b), patterns(c_fmt, c)
    )


def convert(
    src_fmt: OperandFormat, dst_fmt: FloatFormat, bits: ArrayLike, rules: FloatRules = IEEE_RULES
) -> NDArray:
    """The same values in another format, rounded once."""

    def piece(bits: NDArray) -> NDArray:
        x = unpack(src_fmt, bits, rules.operand_subnormals)
        return _pack(dst_fmt, x, src_fmt.significand_bits, rules)

    return elementwise(piece, bits_dtype(dst_fmt), patterns(src_fmt, bits))


def int_to_float(
    out_fmt: FloatFormat, values: ArrayLike, rules: FloatRules = IEEE_RULES
) -> NDArray:
    """Integers of up to 64 bits as floats, rounded once; 0 is +0."""
    values = np.asarray(values)
    if values.dtype.kind not in "iu":
        raise ValueError(f"int_to_float takes integers, not {values.dtype}")

    def piece(values: NDArray) -> NDArray:
        negative = values < 0
        words = values.astype(np.uint64)  # wraps, so that the most negative integer has a magnitude
        magnitude = np.where(negative, -words, words)
        excess = np.where(magnitude >> 62 != 0, np.uint64(2), np.uint64(0))
        kept = magnitude >> excess
        return round_pack(
            out_fmt,
            negative,
            61 + excess.astype(np.int64),
            kept,
            kept << excess != magnitude,
            rules,
            significand_bits=62,
        )

    return elementwise(piece, bits_dtype(out_fmt), values)


def _pack(fmt: FloatFormat, x: Unpacked, width: int, rules: FloatRules) -> NDArray:
    return round_pack(
        fmt,
        x.sign,
        x.exponent,
        x.significand,
        False,
        rules,
        significand_bits=width,
        infinite=x.infinite,
        nan=x.nan,
    )


def _product(
    a_fmt: OperandFormat, b_fmt: OperandFormat, a: NDArray, b: NDArray, rules: FloatRules
) -> tuple[Unpacked, int]:
    """The exact product and the width of its significand, whose top bit may be clear."""
    x = unpack(a_fmt, a, rules.operand_subnormals)
    y = unpack(b_fmt, b, rules.operand_subnormals)
    product = Unpacked(
        sign=x.sign ^ y.sign,
        exponent=x.exponent + y.exponent + 1,  # the weight of the topmost of the product's bits
        significand=x.significand * y.significand,
        zero=x.zero | y.zero,
        infinite=x.infinite | y.infinite,
        nan=x.nan | y.nan | (x.infinite & y.zero) | (x.zero & y.infinite),
    )
    return product, a_fmt.significand_bits + b_fmt.significand_bits


def _sum(
    fmt: FloatFormat, x: Unpacked, x_width: int, y: Unpacked, y_width: int, rules: FloatRules
) -> NDArray:
    """x + y rounded once; the significands are normalised to their widths."""
    x_word, y_word = x.significand << (_SUM_BITS - x_width), y.significand << (_SUM_BITS - y_width)
    x_exponent = np.where(x.significand == 0, _BELOW_EVERYTHING, x.exponent)
    y_exponent = np.where(y.significand == 0, _BELOW_EVERYTHING, y.exponent)
    swap = (y_exponent > x_exponent) | ((y_exponent == x_exponent) & (y_word > x_word))
    # Masks, not np.where: signs and orders are coin tosses that no branch predictor guesses.
    exchange = (x_word ^ y_word) & -swap.astype(np.int64)
    large, small = x_word ^ exchange, y_word ^ exchange
    distance = np.minimum(np.abs(x_exponent - y_exponent), 63)
    aligned = small >> distance
    sticky = aligned << distance != small
    subtract = x.sign ^ y.sign
    # large + ~aligned is large - aligned - 1: right as it is if a tail is subtracted too.
    total = large + (aligned ^ -subtract.astype(np.int64)) + (subtract & ~sticky)
    sign = (x.sign & ~swap) | (y.sign & swap)
    sign = np.where(total == 0, x.sign & y.sign, sign)
    return round_pack(
        fmt,
        np.where(x.infinite, x.sign, np.where(y.infinite, y.sign, sign)),
        np.maximum(x_exponent, y_exponent) + 1,
        total,
        sticky,
        rules,
        significand_bits=_SUM_BITS + 1,
        infinite=x.infinite | y.infinite,
        nan=x.nan | y.nan | (x.infinite & y.infinite & (x.sign != y.sign)),
    )
