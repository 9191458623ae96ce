"""Harmonia's products: block floating point times integers or times block floating point.

Groups of a second operand may have mantissas of different lengths.
"""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from tilewright.golden import block_gemm
from tilewright.golden.bfp import Blocks
from tilewright.golden.block_gemm import lowest_bit, signed
from tilewright.golden.params.block import require
from tilewright.golden.params.harmonia import ACTIVATION_BITS, HarmoniaNumerics
from tilewright.golden.weights import Weights, require_match


@dataclass(frozen=True, eq=False)
class MixedBlocks:
    """Groups along the last axis; ``bits`` is each group's own mantissa length."""

    sign: NDArray[np.bool_]  # (..., groups, group)
    mantissa: NDArray[np.uint8]  # (..., groups, group)
    exponent: NDArray[np.uint8]  # (..., groups), fp16's biased form
    bits: NDArray[np.uint8]  # (..., groups)
    length: int


def truncated(blocks: Blocks, stored_bits: int, bits: NDArray[np.uint8]) -> MixedBlocks:
    """Blocks of ``stored_bits`` cut to ``bits`` per group, which equals direct conversion.

    Both are truncations of the same significand aligned to the same exponent.
    """
    bits = np.broadcast_to(bits, blocks.exponent.shape)
    mantissa = blocks.mantissa >> (stored_bits - bits)[..., np.newaxis]
    return MixedBlocks(blocks.sign, mantissa, blocks.exponent, bits, blocks.length)


def decode(blocks: MixedBlocks) -> NDArray[np.float64]:
    """Exact values of shape (..., length); a zero mantissa with its sign set is -0."""
    steps = lowest_bit(blocks.exponent, blocks.bits)
    magnitude = np.ldexp(blocks.mantissa.astype(np.float64), steps[..., np.newaxis])
    values = np.where(blocks.sign, -magnitude, magnitude)
    return values.reshape(*values.shape[:-2], -1)[..., : blocks.length]


def linear(numerics: HarmoniaNumerics, blocks: Blocks, weights: Weights) -> NDArray[np.uint16]:
    """M8W4: fp16 patterns (rows, outputs) of activations (rows, inputs) and a layer's weights."""
    require_match(blocks, weights, numerics.group, numerics.weight_format)
    values, scales = weights.grouped(numerics.group)
    activations = signed(blocks.sign, blocks.mantissa)
    step = lowest_bit(blocks.exponent, ACTIVATION_BITS)[:, np.newaxis]
    return block_gemm.gemm(numerics, activations, values.astype(np.int64), step, scales)


def gemm(numerics: HarmoniaNumerics, a: Blocks, b: MixedBlocks) -> NDArray[np.uint16]:
    """M8M4 and M8M8: fp16 patterns (rows of a, rows of b); ``b``'s lengths choose the mode."""
    for name, blocks in (("first", a), ("second", b)):
        group = blocks.mantissa.shape[-1]
        require(group == numerics.group, f"{name} operand's group is {group}, not {numerics.group}")
    require(a.length == b.length, f"{a.length} elements but {b.length} in the second operand")
    step = lowest_bit(a.exponent, ACTIVATION_BITS)[:, np.newaxis] + lowest_bit(b.exponent, b.bits)
    return block_gemm.gemm(numerics, signed(a.sign, a.mantissa), signed(b.sign, b.mantissa), step)
