"""Block floating point of float32 activations, fast: what the format keeps, as float32 again.

Equals ``bfp.decode(fmt, bfp.encode(fmt, fp16(values), saturate=True))`` in every bit, signs of
zero included, but never leaves float32 and works in place on pieces that stay in a core's cache.
float32 holds every value of the format: at most 16 mantissa bits.
"""

import numpy as np
from numpy.typing import NDArray

from golden.chunks import for_each_piece
from golden.params.block import require
from golden.params.formats import FP16, FP32, BlockFormat

_PIECE = 1 << 15  # elements; three float32 temporaries fit a core's second-level cache
_EXPONENT = np.uint32(((1 << FP32.exponent_bits) - 1) << FP32.mantissa_bits)
_SIGN = np.uint32(1 << (FP32.bits - 1))
_SMALLEST_NORMAL = np.float32(2.0**FP16.min_exponent)
_LARGEST = np.float32(65504.0)
# A float32 that is 1.5 * 2^13 times a value's power of two has its last bit where fp16 has its own
# of that value: adding and subtracting it rounds to nearest even. An even multiple of that bit, so
# that parity is kept; 1.5, so that values of both signs stay between its powers of two.
_ROUNDER = np.float32(1.5 * 2.0 ** (FP32.mantissa_bits - FP16.mantissa_bits))


def truncate(values: NDArray[np.float32], group: int, mantissa_bits: int) -> NDArray[np.float32]:
    """``values`` in groups along the last axis, in place where they are contiguous.

    They are rounded to fp16 first, beyond its range to its largest magnitude. The last group may
    be short.
    """
    BlockFormat(group=group, mantissa_bits=mantissa_bits)  # refuses what is no format
    require(values.dtype == np.float32, f"values must be float32, not {values.dtype}")
    require(values.ndim >= 1, "block floating point groups along the last axis; a scalar has none")
    if values.size == 0:
        return values
    result = np.ascontiguousarray(values)
    rows = result.reshape(-1, values.shape[-1])
    length = rows.shape[1]
    groups = -(-length // group)

    def work(piece: slice) -> None:
        part = rows[piece]
        if length % group:
            grid = np.zeros((len(part), groups * group), np.float32)
            grid[:, :length] = part
            _truncate_groups(grid.reshape(-1, group), mantissa_bits)
            part[...] = grid[:, :length]
        else:
            _truncate_groups(part.reshape(-1, group), mantissa_bits)

    for_each_piece(work, len(rows), max(1, _PIECE // length))
    return result


def round_to_fp16(values: NDArray[np.float32]) -> NDArray[np.float32]:
    """The nearest fp16 values, in place where ``values`` is contiguous; beyond fp16 as above."""
    result = np.ascontiguousarray(values)
    flat = result.reshape(-1)

    def work(piece: slice) -> None:
        _saturate(flat[piece])
        _round(flat[piece])

    for_each_piece(work, flat.size, _PIECE)
    return result


def _round(values: NDArray[np.float32]) -> None:
    """To nearest even in place, values within fp16's range."""
    rounder = (values.view(np.uint32) & _EXPONENT).view(np.float32)
    np.maximum(rounder, _SMALLEST_NORMAL, out=rounder)  # subnormals share the smallest exponent
    rounder *= _ROUNDER
    rounded = values + rounder
    rounded -= rounder
    sign = values.view(np.uint32) & _SIGN  # a negative value that rounds to zero is -0
    np.bitwise_or(rounded.view(np.uint32), sign, out=values.view(np.uint32))


def _truncate_groups(values: NDArray[np.float32], mantissa_bits: int) -> None:
    """Rows are groups."""
    largest = _largest(np.abs(values))
    if not (largest <= _LARGEST).all():
        _saturate(values)
        largest = _largest(np.abs(values))
    _round(values)
    _round(largest)  # the largest of the rounded ones: rounding keeps the order
    step = mantissa_step(largest, mantissa_bits)
    values *= 1 / step  # a power of two: exact
    np.trunc(values, out=values)
    values *= step


def _saturate(values: NDArray[np.float32]) -> None:
    """Beyond fp16, and NaN, to its largest magnitude; signs are kept."""
    np.copysign(np.fmin(np.abs(values), _LARGEST), values, out=values)


def mantissa_step(largest: NDArray[np.float32], mantissa_bits: int) -> NDArray[np.float32]:
    """What a mantissa's last bit is worth where ``largest`` is a group's largest magnitude."""
    step = (largest.view(np.uint32) & _EXPONENT).view(np.float32)
    np.maximum(step, _SMALLEST_NORMAL, out=step)
    step *= np.float32(2.0 ** (1 - mantissa_bits))
    return step


def _largest(magnitudes: NDArray[np.float32]) -> NDArray[np.float32]:
    """Of each row, (rows, 1); whole rows are halved, far faster than numpy's own reduction."""
    while magnitudes.shape[1] % 2 == 0:
        half = magnitudes.shape[1] // 2
        magnitudes = np.maximum(magnitudes[:, :half], magnitudes[:, half:])
    return magnitudes.max(axis=1, keepdims=True)
