"""Products of block floating point, group after group, with every rounding step.

Per group, in order: the exact integer sum of its products; to the partial format, by the shared
exponents; times the weight scale into fp32, where weights have one; added to an fp32 sum that
starts at +0. The sum leaves as fp16. Every step rounds to nearest even and keeps subnormals.
"""

from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from tilewright.golden.arith import add, convert, multiply
from tilewright.golden.bits import round_pack
from tilewright.golden.params.formats import FP16, FP32, FloatFormat


class Numerics(Protocol):
    """The part of a system's numerics that its products depend on."""

    @property
    def partial(self) -> FloatFormat: ...
    @property
    def group_sum_bits(self) -> int:
        """Bits of a group's exact sum, its sign included."""


def signed(sign: NDArray, mantissa: NDArray) -> NDArray[np.int64]:
    magnitude = mantissa.astype(np.int64)
    return np.where(sign, -magnitude, magnitude)


def lowest_bit(exponent: NDArray, mantissa_bits: NDArray | int) -> NDArray[np.int64]:
    """The power of two of a mantissa's lowest bit."""
    return exponent.astype(np.int64) - FP16.bias - (np.asarray(mantissa_bits, np.int64) - 1)


def partial(numerics: Numerics, sums: NDArray, step: NDArray) -> NDArray:
    """Exact group sums in units of 2^step as patterns of the partial format."""
    width, top = numerics.group_sum_bits, step + numerics.group_sum_bits - 1
    return round_pack(numerics.partial, sums < 0, top, np.abs(sums), significand_bits=width)


def accumulate(
    numerics: Numerics, total: NDArray, partials: NDArray, scale: NDArray | None = None
) -> NDArray:
    """fp32 patterns: ``total`` plus the partials, times their scales if there are any."""
    fmt = numerics.partial
    if scale is None:
        return add(FP32, FP32, FP32, total, convert(fmt, FP32, partials))
    return add(FP32, FP32, FP32, total, multiply(fmt, FP16, FP32, partials, scale))


def gemm(
    numerics: Numerics,
    a: NDArray[np.int64],
    b: NDArray[np.int64],
    step: NDArray[np.int64],
    scales: NDArray[np.uint16] | None = None,
) -> NDArray[np.uint16]:
    """fp16 patterns (rows of a, rows of b) of integers (rows, groups, group) in units of 2^step.

    ``step`` broadcasts to (rows of a, rows of b, groups); ``scales`` are (rows of b, groups).
    """
    total = np.zeros((len(a), len(b)), np.uint32)
    for k in range(a.shape[1]):
        partials = partial(numerics, a[:, k] @ b[:, k].T, step[..., k])
        total = accumulate(numerics, total, partials, None if scales is None else scales[:, k])
    return convert(FP32, FP16, total)
