"""Anda dot products and GEMM with every rounding step of the published chain.

Per group of activations, in order: the exact integer sum of mantissa times weight; to the partial
format with the shared exponent and M; times the weight scale into fp32; added to an fp32 sum that
starts at +0. The sum leaves as fp16. Every step rounds to nearest even and keeps subnormals.
"""

import numpy as np
from numpy.typing import NDArray

from tilewright.golden.arith import add, convert, multiply
from tilewright.golden.bfp import Blocks
from tilewright.golden.bits import round_pack
from tilewright.golden.parallel import for_each_piece
from tilewright.golden.params.anda import AndaNumerics
from tilewright.golden.params.arith import IEEE_RULES
from tilewright.golden.params.formats import FP16, FP32
from tilewright.golden.weights import Weights, require_match

_MAX_FP16 = 65504.0
_BAND = 1 << 22  # results whose sums are held at a time
_PIECE = 1 << 16  # of these, as many as stay in a core's cache with their temporaries


def partial(
    numerics: AndaNumerics, mantissa_bits: int, sums: NDArray, exponent: NDArray
) -> NDArray:
    """Exact group sums as patterns of the partial format.

    ``sums`` counts in units of 2^(exponent - 15 - (mantissa_bits - 1)).
    """
    width = numerics.group_sum_bits
    lowest = exponent.astype(np.int64) - FP16.bias - (mantissa_bits - 1)
    return round_pack(
        numerics.partial,
        sums < 0,
        lowest + width - 1,
        np.abs(sums),
        False,
        IEEE_RULES,
        significand_bits=width,
    )


def accumulate(
    numerics: AndaNumerics, total: NDArray, partials: NDArray, scale: NDArray
) -> NDArray:
    """fp32 patterns: ``total`` plus the partials times their scales, rounded at both steps."""
    scaled = multiply(numerics.partial, FP16, FP32, partials, scale)
    return add(FP32, FP32, FP32, total, scaled)


def group_sums(blocks: Blocks, weights: NDArray) -> NDArray[np.int64]:
    """Exact sums over each group; ``weights`` are (..., groups, group) integers."""
    mantissa = blocks.mantissa.astype(np.int64)
    signed = np.where(blocks.sign, -mantissa, mantissa)
    return (signed * weights).sum(axis=-1)


def dot(
    numerics: AndaNumerics,
    mantissa_bits: int,
    blocks: Blocks,
    weights: NDArray,
    scales: NDArray,
) -> NDArray:
    """fp16 patterns of dot products, each step by :mod:`tilewright.golden.arith`.

    Operands broadcast over leading axes: ``weights`` (..., groups, group) integers, ``scales``
    (..., groups) fp16 patterns, one per group of activations.
    """
    sums = group_sums(blocks, weights)
    partials = partial(numerics, mantissa_bits, sums, blocks.exponent)
    total = np.zeros(np.broadcast_shapes(partials.shape, scales.shape)[:-1], np.uint32)
    for k in range(partials.shape[-1]):
        total = accumulate(numerics, total, partials[..., k], scales[..., k])
    return convert(FP32, FP16, total)


def gemm(
    numerics: AndaNumerics, mantissa_bits: int, blocks: Blocks, weights: Weights
) -> NDArray[np.uint16]:
    """fp16 patterns (rows, outputs) of activations (rows, inputs) times the weights' transpose.

    Bit for bit what :func:`dot` gives. The group sums come from a matrix product of floats that
    hold every intermediate sum exactly, whatever its order; casts and IEEE arithmetic of numpy do
    the rounding.
    """
    require_match(blocks, weights, numerics.group, numerics.weight_format)
    rows, groups, group = blocks.mantissa.shape
    outputs = weights.outputs
    exact = np.float32 if _sums_fit_float32(numerics, mantissa_bits) else np.float64
    partial_dtype = np.float16 if numerics.partial == FP16 else np.float32
    # (groups, group, outputs), zero beyond the last input; a group's slice is contiguous.
    factors = np.zeros((groups * group, outputs), exact)
    factors[: weights.inputs] = weights.values.T
    factors = factors.reshape(groups, group, outputs)
    repeated = np.repeat(weights.scales, weights.group // group, axis=1)[:, :groups]
    with np.errstate(invalid="ignore"):  # a signalling NaN becomes a quiet one
        scales = np.ascontiguousarray(repeated.T).view(np.float16).astype(np.float32)
    step = blocks.exponent.astype(np.int32) - FP16.bias - (mantissa_bits - 1)
    results = np.empty((rows, outputs), np.uint16)
    band = max(1, _BAND // max(1, outputs))
    for start in range(0, rows, band):
        piece = slice(start, start + band)
        magnitude = np.ldexp(blocks.mantissa[piece].astype(exact), step[piece][..., np.newaxis])
        values = np.where(blocks.sign[piece], -magnitude, magnitude)
        sums = np.empty((len(values), outputs), exact)
        total = np.zeros(sums.shape, np.float32)
        for k in range(groups):
            np.matmul(values[:, k], factors[k], out=sums)  # on every core by itself
            if partial_dtype is np.float16 and _all_normal(numerics, mantissa_bits, step[piece, k]):
                _round_to_11_bits(sums)
                _accumulate_floats(total, sums, scales[k], exact)
            else:
                _accumulate_floats(total, sums, scales[k], partial_dtype)
        results[piece] = _fp16_patterns(total)
    return results


def _all_normal(numerics: AndaNumerics, mantissa_bits: int, step: NDArray) -> bool:
    """Whether every sum in units of 2^step is zero or a normal fp16, and float32 holds it."""
    largest = _largest_sum(numerics, mantissa_bits) * 2.0 ** int(step.max())
    fits = _sums_fit_float32(numerics, mantissa_bits)
    return fits and int(step.min()) >= FP16.min_exponent and largest <= _MAX_FP16


def _round_to_11_bits(values: NDArray[np.float32]) -> None:
    """Round to nearest even in place, as the cast to fp16 does to normal numbers, but faster."""
    drop = FP32.mantissa_bits - FP16.mantissa_bits

    def work(piece: slice) -> None:
        words = values[piece].view(np.uint32)
        # Half of the last kept bit less one unit, and that unit too where the bit is odd.
        half = words >> np.uint32(drop)
        half &= np.uint32(1)
        half += np.uint32((1 << (drop - 1)) - 1)
        words += half
        words &= np.uint32((1 << 32) - (1 << drop))

    for_each_piece(work, len(values), max(1, _PIECE // values.shape[1]))


def _accumulate_floats(
    total: NDArray[np.float32], sums: NDArray, scale: NDArray[np.float32], partial_dtype: type
) -> None:
    """``total`` += partial(sums) * scale; ``sums`` are lost."""

    def work(piece: slice) -> None:
        with np.errstate(over="ignore", invalid="ignore"):
            scaled = sums[piece].astype(partial_dtype, copy=False).astype(np.float32, copy=False)
            scaled *= scale
            total[piece] += scaled

    for_each_piece(work, len(total), max(1, _PIECE // total.shape[1]))


def _fp16_patterns(values: NDArray[np.float32]) -> NDArray[np.uint16]:
    with np.errstate(over="ignore", invalid="ignore"):
        halves = values.astype(np.float16)
    return np.where(np.isnan(halves), np.uint16(FP16.nan_bits or 0), halves.view(np.uint16))


def _sums_fit_float32(numerics: AndaNumerics, mantissa_bits: int) -> bool:
    """Whether every partial sum of a group is an integer of at most 24 bits."""
    return _largest_sum(numerics, mantissa_bits) <= 1 << FP32.significand_bits


def _largest_sum(numerics: AndaNumerics, mantissa_bits: int) -> int:
    """Magnitude that no sum of a group exceeds."""
    return numerics.group * -numerics.weight_format.minimum * ((1 << mantissa_bits) - 1)
