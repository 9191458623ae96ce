"""The KV cache of one head after a number of tokens, bit by bit.

K is converted along its channels, less the offsets of the prompt; V along tokens, a group for each
channel, the newest one perhaps unfinished. Tokens in neither window lack the low half of their
mantissas, which equals a conversion at the low length.
"""

from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

from tilewright.golden import bfp
from tilewright.golden.bits import patterns
from tilewright.golden.harmonia.gemm import MixedBlocks, truncated
from tilewright.golden.harmonia.offset import offsets, subtract
from tilewright.golden.harmonia.precision import key_bits, value_bits
from tilewright.golden.params.block import require
from tilewright.golden.params.formats import FP16, BlockFormat
from tilewright.golden.params.harmonia import CacheParams


class KvCache(NamedTuple):
    """K and V in block floating point."""

    keys: MixedBlocks  # (tokens, groups, group)
    values: MixedBlocks  # (channels, groups, group), the last group padded with zeros

    @property
    def tokens(self) -> int:
        return self.values.length

    @property
    def channels(self) -> int:
        return self.keys.length


def cached(params: CacheParams, keys: ArrayLike, values: ArrayLike, prompt: int) -> KvCache:
    """The cache of fp16 patterns (tokens, channels); the first ``prompt`` give the offsets."""
    k, v = (patterns(FP16, x).astype(np.uint16) for x in (keys, values))
    require(
        k.ndim == 2 and k.shape == v.shape,
        f"keys and values must have one shape (tokens, channels), not {k.shape} and {v.shape}",
    )
    shifted = subtract(k, offsets(params, k[:prompt]))
    lengths = key_bits(params, len(k))[:, np.newaxis]
    return KvCache(
        _converted(params, shifted, params.key_bits[0], lengths),
        _converted(params, v.T, params.value_bits[0], value_bits(params, len(v))),
    )


def _converted(
    params: CacheParams, values: NDArray[np.uint16], recent: int, lengths: NDArray[np.uint8]
) -> MixedBlocks:
    fmt = BlockFormat(group=params.group, mantissa_bits=recent)
    return truncated(bfp.encode(fmt, values), recent, lengths)
