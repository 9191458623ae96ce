"""Block floating point over fp16: a group of values shares the largest exponent among them.

An fp16 value has a sign, e = max(exponent field, 1) and an 11-bit significand with the hidden bit.
The shared exponent is the largest e of the group. A mantissa is the significand aligned to the
shared exponent at M = ``mantissa_bits`` bits and truncated toward zero, so

    value = (-1)^sign * mantissa * 2^(exponent - 15 - (M - 1)).

A mantissa truncated to zero keeps its sign. Infinity and NaN do not exist in the format.
"""

from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike, NDArray

from tilewright.golden.bits import patterns
from tilewright.golden.parallel import CHUNK, for_each_piece
from tilewright.golden.params.formats import FP16, BlockFormat

_PIECE = 1 << 16  # elements; a handful of 16-bit temporaries fits a core's second-level cache


@dataclass(frozen=True, eq=False)
class Blocks:
    """Values of shape (..., length) in groups along the last axis, the last one zero-padded."""

    sign: NDArray[np.bool_]  # (..., groups, group)
    mantissa: NDArray  # (..., groups, group), the smallest unsigned dtype that holds it
    exponent: NDArray[np.uint8]  # (..., groups), in fp16's biased form: 1..30
    length: int


def encode(fmt: BlockFormat, bits: ArrayLike, *, saturate: bool = False) -> Blocks:
    """Blocks of fp16 patterns, grouped along the last axis.

    Infinity and NaN are refused with their position; with ``saturate`` they count as the largest
    finite magnitude, sign kept.
    """
    words = patterns(FP16, bits).astype(np.uint16, copy=False)
    if words.ndim == 0:
        raise ValueError("block floating point groups along the last axis; a scalar has none")
    *lead, length = words.shape
    groups = -(-length // fmt.group)
    if length % fmt.group:
        words = np.pad(words, [(0, 0)] * len(lead) + [(0, groups * fmt.group - length)])
    flat = words.reshape(-1, fmt.group)
    sign = np.empty(flat.shape, bool)
    mantissa = np.empty(flat.shape, mantissa_dtype(fmt))
    exponent = np.empty(len(flat), np.uint8)

    def work(piece: slice) -> None:
        np.less(flat[piece].view(np.int16), 0, out=sign[piece])
        magnitude = np.bitwise_and(flat[piece], 0x7FFF, dtype=np.uint16)
        largest = magnitude.max(axis=1)
        if (largest > FP16.max_finite_bits).any():
            if not saturate:
                raise ValueError(_refusal(words))
            np.minimum(magnitude, FP16.max_finite_bits, out=magnitude)
        shared = _effective_exponent(largest)
        exponent[piece] = shared
        mantissa[piece] = _aligned_mantissa(magnitude, shared[:, np.newaxis], fmt.mantissa_bits)

    for_each_piece(work, len(flat), max(1, _PIECE // fmt.group))
    shape = (*lead, groups, fmt.group)
    return Blocks(
        sign.reshape(shape), mantissa.reshape(shape), exponent.reshape(shape[:-1]), length
    )


def decode(fmt: BlockFormat, blocks: Blocks) -> NDArray[np.float64]:
    """Exact values of shape (..., length); a zero mantissa with its sign set is -0."""
    lsb = np.ldexp(1.0, blocks.exponent.astype(np.int64) - FP16.bias - (fmt.mantissa_bits - 1))
    *lead, groups, group = blocks.mantissa.shape
    mantissa, sign = (a.reshape(-1, group) for a in (blocks.mantissa, blocks.sign))
    step = lsb.reshape(-1, 1)
    values = np.empty(mantissa.shape)

    def work(piece: slice) -> None:
        np.multiply(mantissa[piece], step[piece], out=values[piece])
        values[piece].view(np.int64)[...] |= sign[piece].astype(np.int64) << 63

    for_each_piece(work, len(values), max(1, CHUNK // group))
    return values.reshape(*lead, groups * group)[..., : blocks.length]


def mantissa_dtype(fmt: BlockFormat) -> np.dtype:
    """The smallest unsigned dtype that holds a mantissa of ``fmt``."""
    return np.min_scalar_type((1 << fmt.mantissa_bits) - 1)


def _effective_exponent(magnitude: NDArray[np.uint16]) -> NDArray[np.uint16]:
    """The exponent field; 1 for subnormals and zero, the largest finite one's for infinity."""
    return np.clip(magnitude >> FP16.mantissa_bits, 1, FP16.max_exponent + FP16.bias)


def _aligned_mantissa(
    magnitude: NDArray[np.uint16], shared: NDArray[np.uint16], mantissa_bits: int
) -> NDArray[np.uint16]:
    exponent = _effective_exponent(magnitude)
    distance = shared - exponent
    # A pattern with its exponent field reduced to 1 (0 for subnormals) is the significand.
    exponent -= 1
    exponent <<= FP16.mantissa_bits
    significand = magnitude - exponent
    if mantissa_bits < FP16.significand_bits:
        distance += FP16.significand_bits - mantissa_bits
    else:
        significand <<= mantissa_bits - FP16.significand_bits
    return significand >> distance  # numpy shifts by 16 and more to 0


def _refusal(words: NDArray[np.uint16]) -> str:
    first = np.argmax((words & 0x7FFF) > FP16.max_finite_bits)
    position = tuple(int(k) for k in np.unravel_index(first, words.shape))
    kind = "infinity" if words[position] & 0x7FFF == FP16.infinity_bits else "NaN"
    return f"{kind} at {position} has no block floating point value"
