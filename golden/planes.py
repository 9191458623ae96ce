"""Bit planes of block floating point: one word per group for the signs, then one per mantissa bit.

The sign word is first, then the mantissa words from the most significant plane down; element 0 of
the group is bit 0 of every word. Exponents are stored separately.
"""

import numpy as np
from numpy.typing import ArrayLike, NDArray

from tilewright.golden.bfp import Blocks, mantissa_dtype
from tilewright.golden.params.formats import BlockFormat

MAX_GROUP = 64  # a plane of a group is one numpy word


def word_dtype(fmt: BlockFormat) -> np.dtype:
    """The smallest unsigned dtype that holds one plane of a group, as little-endian bytes."""
    if fmt.group > MAX_GROUP:
        raise ValueError(f"bit planes hold groups of at most {MAX_GROUP}, not {fmt.group!r}")
    return np.min_scalar_type((1 << fmt.group) - 1).newbyteorder("<")


def pack(fmt: BlockFormat, blocks: Blocks) -> NDArray:
    """Words of shape (..., groups, 1 + mantissa_bits)."""
    dtype = word_dtype(fmt)
    *lead, _ = blocks.mantissa.shape
    words = np.empty((*lead, 1 + fmt.mantissa_bits), dtype)
    words[..., 0] = _to_words(blocks.sign, dtype)
    for plane in range(fmt.mantissa_bits):
        weight = 1 << (fmt.mantissa_bits - 1 - plane)
        words[..., 1 + plane] = _to_words(blocks.mantissa & weight, dtype)
    return words


def unpack(fmt: BlockFormat, words: ArrayLike, exponent: NDArray[np.uint8], length: int) -> Blocks:
    """Undo :func:`pack`, given the exponents and the length of the last axis."""
    array = np.ascontiguousarray(words, word_dtype(fmt))
    if array.shape[-1] != 1 + fmt.mantissa_bits:
        raise ValueError(f"{fmt} has {1 + fmt.mantissa_bits} planes, not {array.shape[-1]}")
    mantissa = np.zeros((*array.shape[:-1], fmt.group), mantissa_dtype(fmt))
    for plane in range(1, 1 + fmt.mantissa_bits):
        mantissa <<= 1
        mantissa |= _to_bits(array[..., plane], fmt.group)
    return Blocks(_to_bits(array[..., 0], fmt.group).astype(bool), mantissa, exponent, length)


def _to_words(flags: NDArray, dtype: np.dtype) -> NDArray:
    """(..., group) nonzero or zero to (...) words, element 0 in bit 0."""
    packed = np.packbits(flags, axis=-1, bitorder="little")
    padded = np.zeros((*packed.shape[:-1], dtype.itemsize), np.uint8)
    padded[..., : packed.shape[-1]] = packed
    return padded.view(dtype)[..., 0]


def _to_bits(words: NDArray, group: int) -> NDArray[np.uint8]:
    octets = np.ascontiguousarray(words)[..., np.newaxis].view(np.uint8)
    return np.unpackbits(octets, axis=-1, count=group, bitorder="little")
