"""Mantissa lengths of cached tokens, and the size of the cache.

A K token at position p of a sequence of s tokens is recent if p < initial or p >= s - local. A V
group of tokens is recent if it lies in the initial window or if any of its tokens is in the local
one; so is the residual group, which is not full.
"""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from tilewright.golden.params.formats import FP16
from tilewright.golden.params.harmonia import CacheParams


def key_bits(params: CacheParams, tokens: int) -> NDArray[np.uint8]:
    """Mantissa length of every cached K token."""
    position = np.arange(tokens)
    recent = (position < params.initial) | (position >= tokens - params.local)
    return np.where(recent, *params.key_bits).astype(np.uint8)


def value_bits(params: CacheParams, tokens: int) -> NDArray[np.uint8]:
    """Mantissa length of every V group; the last one may be residual."""
    end = np.arange(0, tokens, params.group) + params.group
    recent = (end <= params.initial) | (end > tokens - params.local) | (end > tokens)
    return np.where(recent, *params.value_bits).astype(np.uint8)


@dataclass(frozen=True)
class CacheSize:
    """Bits of one head's cache, K and V together."""

    tokens: int
    channels: int
    bits: int

    @property
    def fp16_bits(self) -> int:
        return 2 * self.tokens * self.channels * FP16.bits

    @property
    def reduction(self) -> float:
        return self.fp16_bits / self.bits


def cache_size(params: CacheParams, tokens: int, channels: int) -> CacheSize:
    """Signs, mantissas and exponents of K and V; whole groups, padding included."""
    keys = _bits(params, key_bits(params, tokens)) * -(-channels // params.group)
    values = _bits(params, value_bits(params, tokens)) * channels
    return CacheSize(tokens, channels, keys + values)


def _bits(params: CacheParams, lengths: NDArray[np.uint8]) -> int:
    elements = params.group * (lengths.size + int(lengths.sum(dtype=np.int64)))
    return elements + lengths.size * FP16.exponent_bits
