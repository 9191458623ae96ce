"""Block floating point of float32 activations, fast: what the format keeps, as float32 again.

Equals ``bfp.decode(fmt, bfp.encode(fmt, fp16(values), saturate=True))`` in every bit, signs of
zero included, but never leaves float32 and works in place on pieces that stay in a core's cache.
float32 holds every value of the format: at most 16 mantissa bits.
"""

from collections.abc import Callable
from math import prod
from threading import local

import numpy as np

from tilewright.golden.llm.sites import Floats
from tilewright.golden.parallel import for_each_piece
from tilewright.golden.params.block import require
from tilewright.golden.params.formats import FP16, FP32, BlockFormat

_PIECE = 1 << 16  # elements; with three temporaries they fit a core's second-level cache
_EXPONENT = np.uint32(((1 << FP32.exponent_bits) - 1) << FP32.mantissa_bits)
_SIGN = np.uint32(1 << (FP32.bits - 1))
_SMALLEST_NORMAL = np.float32(2.0**FP16.min_exponent)
_LARGEST = np.float32(65504.0)
# A float32 that is 1.5 * 2^13 times a value's power of two has its last bit where fp16 has its own
# of that value: adding and subtracting it rounds to nearest even. An even multiple of that bit, so
# that parity is kept; 1.5, so that values of both signs stay between its powers of two.
_ROUNDER = np.float32(1.5 * 2.0 ** (FP32.mantissa_bits - FP16.mantissa_bits))


class _Kept(local):
    """Temporaries of a thread."""

    def __init__(self) -> None:
        self.arrays = [np.empty(0, np.float32)] * 3


_kept = _Kept()


def truncate(
    values: Floats, group: int, mantissa_bits: int, reach: Callable[[slice], int] | None = None
) -> Floats:
    """``values`` in groups along the last axis, in place where they are contiguous.

    They are rounded to fp16 first, beyond its range to its largest magnitude. The last group may
    be short. ``reach`` tells how far a slice of rows goes: beyond it they are 0 and stay so.
    """
    BlockFormat(group=group, mantissa_bits=mantissa_bits)  # refuses what is no format
    require(values.dtype == np.float32, f"values must be float32, not {values.dtype}")
    require(values.ndim >= 1, "block floating point groups along the last axis; a scalar has none")
    if values.size == 0:
        return values
    result = np.ascontiguousarray(values)
    rows = result.reshape(-1, values.shape[-1])
    length = rows.shape[1]

    def work(piece: slice) -> None:
        end = length if reach is None else reach(piece)
        width = end + -end % group
        part = rows[piece, :width]
        if width == length:
            _truncate_groups(part.reshape(-1, group), mantissa_bits)
            return
        grid = _temporary(2, (len(part), width))
        grid[:, length:] = 0
        grid[:, :length] = part
        _truncate_groups(grid.reshape(-1, group), mantissa_bits)
        part[...] = grid[:, :length]

    for_each_piece(work, len(rows), max(1, _PIECE // length))
    return result


def round_to_fp16(values: Floats) -> Floats:
    """The nearest fp16 values, in place where ``values`` is contiguous; beyond fp16 as above."""
    result = np.ascontiguousarray(values)
    flat = result.reshape(-1)

    def work(piece: slice) -> None:
        _saturate(flat[piece])
        _round(flat[piece], *_temporaries(flat[piece]))

    for_each_piece(work, flat.size, _PIECE)
    return result


def _round(values: Floats, rounded: Floats, spare: Floats) -> None:
    """Round ``values`` within fp16's range to nearest even, by way of two arrays of their shape."""
    np.bitwise_and(values.view(np.uint32), _EXPONENT, out=spare.view(np.uint32))
    np.maximum(spare, _SMALLEST_NORMAL, out=spare)  # subnormals share the smallest exponent
    spare *= _ROUNDER
    np.add(values, spare, out=rounded)
    rounded -= spare
    sign = spare.view(np.uint32)
    np.bitwise_and(values.view(np.uint32), _SIGN, out=sign)  # -0 of a negative one
    np.bitwise_or(rounded.view(np.uint32), sign, out=values.view(np.uint32))


def _truncate_groups(values: Floats, mantissa_bits: int) -> None:
    """Truncate the groups that the rows are."""
    first, second = _temporaries(values)
    largest = _largest(np.abs(values, out=first))
    if not (largest <= _LARGEST).all():
        _saturate(values)
        largest = _largest(np.abs(values, out=first))
    _round(values, first, second)
    _round(largest, *_temporaries(largest))  # of the rounded ones: rounding keeps the order
    # A step for each value: numpy is slow where it repeats one for the few of a group.
    first[...] = mantissa_step(largest, mantissa_bits)[:, np.newaxis]
    np.divide(values, first, out=second)  # by a power of two: exact
    np.trunc(second, out=second)
    np.multiply(second, first, out=values)


def _temporaries(values: Floats) -> tuple[Floats, Floats]:
    return _temporary(0, values.shape), _temporary(1, values.shape)


def _temporary(index: int, shape: tuple[int, ...]) -> Floats:
    """The same memory every time: to get it anew from the system costs more than the work."""
    size = prod(shape)
    if _kept.arrays[index].size < size:
        _kept.arrays[index] = np.empty(size, np.float32)
    return _kept.arrays[index][:size].reshape(shape)


def _saturate(values: Floats) -> None:
    """Beyond fp16, and NaN, to its largest magnitude; signs are kept."""
    np.copysign(np.fmin(np.abs(values), _LARGEST), values, out=values)


def mantissa_step(largest: Floats, mantissa_bits: int) -> Floats:
    """What a mantissa's last bit is worth where ``largest`` is a group's largest magnitude."""
    step = (largest.view(np.uint32) & _EXPONENT).view(np.float32)
    np.maximum(step, _SMALLEST_NORMAL, out=step)
    step *= np.float32(2.0 ** (1 - mantissa_bits))
    return step


def _largest(magnitudes: Floats) -> Floats:
    """The largest of each row, by pairs of neighbours: far faster than numpy's own reduction."""
    rows, length = magnitudes.shape
    found = magnitudes.reshape(-1)
    while length % 2 == 0:
        found = np.maximum(found[0::2], found[1::2])
        length //= 2
    return found.reshape(rows, length).max(axis=1)
