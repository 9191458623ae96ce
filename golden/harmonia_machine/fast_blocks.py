"""Block floating point with 8-bit mantissas, bit for bit that of golden.bfp, for small tensors."""

import numpy as np
from numpy.typing import NDArray

from tilewright.golden.bfp import Blocks
from tilewright.golden.params.formats import FP16
from tilewright.golden.params.harmonia import ACTIVATION_BITS

_LARGEST = np.uint16(FP16.max_finite_bits)
_LOWEST, _HIGHEST = np.uint16(1), np.uint16(FP16.max_finite_bits >> FP16.mantissa_bits)
_DROPPED = np.uint16(FP16.significand_bits - ACTIVATION_BITS)


def encoded(values: NDArray[np.uint16], group: int) -> tuple[Blocks, bool]:
    """Groups along the last axis, the last one padded; and whether infinity or NaN saturated."""
    *lead, length = values.shape
    groups = -(-length // group)
    if length % group:
        values = np.pad(values, [(0, 0)] * len(lead) + [(0, groups * group - length)])
    words = values.reshape(*lead, groups, group)
    sign = words >= 0x8000
    magnitude = words & np.uint16(0x7FFF)
    largest = magnitude.max(axis=-1)
    saturated = bool((largest > _LARGEST).any())
    if saturated:
        magnitude = np.minimum(magnitude, _LARGEST)
    shared = np.minimum(np.maximum(largest >> FP16.mantissa_bits, _LOWEST), _HIGHEST)
    own = np.maximum(magnitude >> FP16.mantissa_bits, _LOWEST)
    # What remains once the exponent field reads 1 is the significand with its hidden bit.
    significand = magnitude - ((own - _LOWEST) << FP16.mantissa_bits)
    mantissa = significand >> (shared[..., np.newaxis] - own + _DROPPED)
    return Blocks(sign, mantissa.astype(np.uint8), shared.astype(np.uint8), length), saturated
