"""Integer building blocks on numpy arrays: the specification of ``hw/arith``'s integer units.

Vectors lie along the last axis, element 0 first. Fields of up to 64 bits are numpy integers;
wider ones are object arrays of Python integers.
"""

import numpy as np
from numpy.typing import NDArray

from tilewright.golden.params.arith import ShiftDirection


def leading_zeros(x: NDArray, width: int) -> NDArray:
    """Zeros above the highest set bit of ``width``-bit ``x``; ``width`` for zero."""
    count = np.zeros(x.shape, dtype=np.int64)
    for k in range(width):
        count += (x >> k) != 0
    return width - count


def shift(
    x: NDArray, amount: NDArray, width: int, direction: ShiftDirection
) -> tuple[NDArray, NDArray]:
    """``x`` shifted within ``width`` bits, and 1 where a set bit was shifted out."""
    amount = np.minimum(amount, width)
    wide = x.astype(object)
    mask = (1 << width) - 1
    if direction is ShiftDirection.RIGHT:
        y = wide >> amount
        lost = wide != y << amount
    else:
        shifted = wide << amount
        y = shifted & mask
        lost = shifted != y
    return y, lost.astype(np.int64)


def adder_tree(terms: NDArray) -> NDArray:
    largest = max(abs(int(terms.min())), abs(int(terms.max())))
    fits = largest * terms.shape[-1] < 1 << 63
    return terms.astype(np.int64 if fits else object).sum(axis=-1)


def popcount(mask: NDArray) -> NDArray:
    return mask.astype(np.int64).sum(axis=-1)


def prefix_sum(mask: NDArray) -> tuple[NDArray, NDArray]:
    """Per element how many 1s lie below it, and how many there are in all."""
    inclusive = np.cumsum(mask.astype(np.int64), axis=-1)
    return inclusive - mask, inclusive[..., -1]


def expand(x: NDArray, mask: NDArray) -> NDArray:
    """The elements of ``x``, in order, to the places where ``mask`` is 1; 0 elsewhere."""
    index, _ = prefix_sum(mask)
    return np.where(mask == 1, np.take_along_axis(x, index, axis=-1), 0)


def max_tree(terms: NDArray) -> NDArray:
    return terms.max(axis=-1)
