"""The compressor's aligner, cycle by cycle and element by element, as the hardware works.

Every element holds its exponent's distance to the group's largest and its significand. In a cycle
an element whose distance is zero gives its top bit and shifts; any other gives 0 and counts its
distance down. After M cycles the bits given are the mantissa aligned and truncated to M bits.
"""

import numpy as np
from numpy.typing import ArrayLike, NDArray

from tilewright.golden.params.formats import FP16

_TOP = FP16.mantissa_bits  # bit number of the hidden bit


def aligned_planes(
    distance: ArrayLike, significand: ArrayLike, mantissa_bits: int
) -> NDArray[np.uint8]:
    """Bits of shape (mantissa_bits, ...), the plane of the first cycle first."""
    left = np.array(distance, np.int64)
    rest = np.array(significand, np.int64)
    planes = np.empty((mantissa_bits, *left.shape), np.uint8)
    for plane in planes:
        arrived = left == 0
        plane[...] = arrived & (rest >> _TOP)
        rest = np.where(arrived, (rest << 1) & ((2 << _TOP) - 1), rest)
        left = np.where(arrived, 0, left - 1)
    return planes


def compress_group(
    bits: ArrayLike, mantissa_bits: int
) -> tuple[NDArray[np.bool_], NDArray[np.uint8], int, bool]:
    """One group of fp16 patterns through every step of a lane: signs, planes, exponent, flag.

    The flag tells that an infinity or NaN was there; it counts as the largest finite value.
    """
    words = np.asarray(bits, np.int64)
    field = (words >> FP16.mantissa_bits) & 0x1F
    special = field == 0x1F
    fraction = np.where(special, (1 << FP16.mantissa_bits) - 1, words & 0x3FF)
    exponent = np.where(special, 0x1E, np.maximum(field, 1))
    significand = fraction | ((field != 0).astype(np.int64) << FP16.mantissa_bits)
    shared = int(exponent.max())
    planes = aligned_planes(shared - exponent, significand, mantissa_bits)
    return words >> 15 != 0, planes, shared, bool(special.any())
