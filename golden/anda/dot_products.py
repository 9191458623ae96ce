"""Anda's dot products and GEMM: block floating point times integers with a scale per group."""

import numpy as np
from numpy.typing import NDArray

from tilewright.golden import block_gemm
from tilewright.golden.arith import convert
from tilewright.golden.bfp import Blocks
from tilewright.golden.block_gemm import lowest_bit, signed
from tilewright.golden.params.anda import AndaNumerics
from tilewright.golden.params.formats import FP16, FP32
from tilewright.golden.weights import Weights, require_match

accumulate = block_gemm.accumulate


def partial(
    numerics: AndaNumerics, mantissa_bits: int, sums: NDArray, exponent: NDArray
) -> NDArray:
    return block_gemm.partial(numerics, sums, lowest_bit(exponent, mantissa_bits))


def group_sums(blocks: Blocks, weights: NDArray) -> NDArray[np.int64]:
    return (signed(blocks.sign, blocks.mantissa) * weights).sum(axis=-1)


def dot(
    numerics: AndaNumerics, mantissa_bits: int, blocks: Blocks, weights: NDArray, scales: NDArray
) -> NDArray:
    """fp16 patterns of dot products; operands broadcast over leading axes.

    ``weights`` are (..., groups, group) integers, ``scales`` (..., groups) fp16 patterns, one per
    group of activations.
    """
    partials = partial(numerics, mantissa_bits, group_sums(blocks, weights), blocks.exponent)
    total = np.zeros(np.broadcast_shapes(partials.shape, scales.shape)[:-1], np.uint32)
    for k in range(partials.shape[-1]):
        total = accumulate(numerics, total, partials[..., k], scales[..., k])
    return convert(FP32, FP16, total)


def gemm(
    numerics: AndaNumerics, mantissa_bits: int, blocks: Blocks, weights: Weights
) -> NDArray[np.uint16]:
    """fp16 patterns (rows, outputs) of activations (rows, inputs) and a layer's weights."""
    require_match(blocks, weights, numerics.group, numerics.weight_format)
    values, scales = weights.grouped(numerics.group)
    activations = signed(blocks.sign, blocks.mantissa)
    step = lowest_bit(blocks.exponent, mantissa_bits)[:, np.newaxis]
    return block_gemm.gemm(numerics, activations, values.astype(np.int64), step, scales)
