"""AMX and AVX-512 multiplications on bit patterns, as Intel's instruction set reference has them.

A tile register is 16 rows of 64 bytes; these functions take any number of rows and output columns
and treat them alike, since every output element is computed by itself. Only the depth is bound to
the register: at most 64 bytes of the first operand's row. Leading axes are independent tiles.

The second operand holds groups of 2 (bf16) or 4 (int8) consecutive depths side by side, which
:func:`interleave` makes of a plain matrix.
"""

import numpy as np
from numpy.typing import NDArray

from tilewright.golden.arith import add, fma
from tilewright.golden.params.arith import AMX_ROW_BYTES, AMX_RULES
from tilewright.golden.params.formats import BF16, FP32


def interleave(matrix: NDArray, depths: int) -> NDArray:
    """(depth, columns) -> (depth / depths, depths * columns): second operand of a multiplication.

    Element [k, depths * n + j] is matrix[depths * k + j, n].
    """
    depth, columns = matrix.shape
    if depth % depths:
        raise ValueError(f"depth {depth} is no multiple of {depths}")
    return matrix.reshape(-1, depths, columns).swapaxes(1, 2).reshape(-1, depths * columns)


def tdpbf16ps(c: NDArray, a: NDArray, b: NDArray) -> NDArray[np.uint32]:
    """c + a @ b of bf16 operands, in fp32.

    Shapes (..., rows, columns), (..., rows, 2 * pairs), (..., pairs, 2 * columns). Products of
    even and of odd depths are summed apart, each from +0 in rising order by fused multiply-adds;
    the two sums are added to each other and then to c. Rounding is to nearest even; subnormal
    operands count as zero, and what is subnormal when rounded to 24 bits becomes zero, at every
    step. NaN results are the
    canonical one (silicon may give another).
    """
    pairs = b.shape[-2]
    _check(c, a, b, depths=2, element_bytes=2)
    left = a.reshape(*a.shape[:-1], pairs, 2)
    right = b.reshape(*b.shape[:-1], c.shape[-1], 2)
    sums = np.zeros((*np.broadcast_shapes(a.shape[:-2], b.shape[:-2]), *c.shape[-2:], 2), np.uint32)
    for k in range(pairs):
        x = left[..., :, np.newaxis, k, :]
        y = right[..., np.newaxis, k, :, :]
        sums = fma(BF16, BF16, FP32, FP32, x, y, sums, AMX_RULES)
    both = add(FP32, FP32, FP32, sums[..., 0], sums[..., 1], AMX_RULES)
    return add(FP32, FP32, FP32, c, both, AMX_RULES)


def tdpbssd(c: NDArray, a: NDArray, b: NDArray) -> NDArray[np.int32]:
    """c + a @ b of int8 operands, in int32 that wraps.

    Shapes (..., rows, columns), (..., rows, 4 * quads), (..., quads, 4 * columns).
    """
    _check(c, a, b, depths=4, element_bytes=1)
    left = np.asarray(a, np.int8).astype(np.int64)
    right = np.asarray(b, np.int8).astype(np.int64)
    right = right.reshape(*b.shape[:-1], c.shape[-1], 4).swapaxes(-1, -2)
    right = right.reshape(*b.shape[:-2], 4 * b.shape[-2], c.shape[-1])
    return (np.asarray(c, np.int32).astype(np.int64) + left @ right).astype(np.int32)


def vdpbf16ps(c: NDArray, a: NDArray, b: NDArray) -> NDArray[np.uint32]:
    """AVX-512: c + pairs of bf16 products, in fp32; shapes (..., n), (..., 2 n), (..., 2 n).

    The product of the odd elements is added to c first, then that of the even ones, each by a
    fused multiply-add to nearest even; subnormals count as zero and become zero at every step.
    """
    if a.shape[-1] != 2 * c.shape[-1] or b.shape[-1] != 2 * c.shape[-1]:
        raise ValueError(f"registers {c.shape}, {a.shape} and {b.shape} do not multiply")
    for parity in (1, 0):
        x, y = a[..., parity::2], b[..., parity::2]
        c = fma(BF16, BF16, FP32, FP32, x, y, c, AMX_RULES)
    return c


def vpdpbusd(c: NDArray, a: NDArray, b: NDArray) -> NDArray[np.int32]:
    """AVX-512: c + quads of uint8 times int8, in int32 that wraps; (..., n), (..., 4 n) twice."""
    if a.shape[-1] != 4 * c.shape[-1] or b.shape[-1] != 4 * c.shape[-1]:
        raise ValueError(f"registers {c.shape}, {a.shape} and {b.shape} do not multiply")
    products = np.asarray(a, np.uint8).astype(np.int64) * np.asarray(b, np.int8)
    quads = products.reshape(*products.shape[:-1], c.shape[-1], 4).sum(axis=-1)
    return (np.asarray(c, np.int32).astype(np.int64) + quads).astype(np.int32)


def _check(c: NDArray, a: NDArray, b: NDArray, *, depths: int, element_bytes: int) -> None:
    fits = (
        a.shape[-2:] == (c.shape[-2], depths * b.shape[-2]) and b.shape[-1] == depths * c.shape[-1]
    )
    if not fits:
        raise ValueError(f"tiles {c.shape}, {a.shape} and {b.shape} do not multiply")
    if a.shape[-1] * element_bytes > AMX_ROW_BYTES:
        raise ValueError(f"a depth of {a.shape[-1]} does not fit a row of {AMX_ROW_BYTES} bytes")
