"""Groups of block floating point whose mantissa lengths differ from group to group."""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from tilewright.golden.bfp import Blocks
from tilewright.golden.params.formats import FP16


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
    steps = blocks.exponent.astype(np.int64) - FP16.bias - (blocks.bits.astype(np.int64) - 1)
    magnitude = np.ldexp(blocks.mantissa.astype(np.float64), steps[..., np.newaxis])
    values = np.where(blocks.sign, -magnitude, magnitude)
    return values.reshape(*values.shape[:-2], -1)[..., : blocks.length]
