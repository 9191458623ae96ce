"""The KV cache of one head after a number of tokens, bit by bit.

K is converted along its channels, less the offsets of the prompt; V along tokens, a group for each
channel, the newest one perhaps unfinished. Tokens in neither window lack the low half of their
mantissas, which equals a conversion at the low length.
"""

from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike

from tilewright.golden import bfp
from tilewright.golden.bits import patterns
from tilewright.golden.harmonia.mixed import MixedBlocks, truncated
from tilewright.golden.harmonia.offset import offsets, subtract
from tilewright.golden.harmonia.precision import key_bits, value_bits
from tilewright.golden.params.block import require
from tilewright.golden.params.formats import FP16
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
    converted = bfp.encode(params.high, subtract(k, offsets(params, k[:prompt])))
    lengths = key_bits(params, len(k))[:, np.newaxis]
    return KvCache(
        truncated(converted, params.high_bits, lengths),
        truncated(bfp.encode(params.high, v.T), params.high_bits, value_bits(params, len(v))),
    )
