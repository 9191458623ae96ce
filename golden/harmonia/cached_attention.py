"""Attention of many queries, each over the KV cache of its own time, in float32.

Harmonia's cache changes with every token: a key that leaves the local window loses mantissa bits,
and a group of values is unfinished until its last token. Query t sees
:class:`tilewright.golden.harmonia.cache.KvCache` of t + 1 tokens, or, where the accelerator
processes a prompt in steps of several tokens, the cache at the end of its step.
"""

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from tilewright.golden.harmonia.offset import largest_halved
from tilewright.golden.harmonia.precision import CacheSize
from tilewright.golden.llm.blockfloat import truncate
from tilewright.golden.llm.sites import Floats, softmax
from tilewright.golden.params.block import require
from tilewright.golden.params.formats import BlockFormat
from tilewright.golden.params.harmonia import CacheParams


@dataclass(frozen=True, kw_only=True)
class CacheFormat:
    """:class:`tilewright.golden.params.harmonia.CacheParams` with separate lengths for K and V.

    The lengths are (recent, old) and may exceed the eight bits of the hardware.
    """

    group: int = 32
    initial: int = 32  # tokens
    local: int = 64
    key_bits: tuple[int, int] = (8, 4)
    value_bits: tuple[int, int] = (8, 4)
    offset_channels: int = 8

    def __post_init__(self) -> None:
        for name in ("initial", "local"):
            value = getattr(self, name)
            require(
                value >= 0 and value % self.group == 0,
                f"{name} must be a multiple of the group {self.group}, not {value!r}",
            )
        for name in ("key_bits", "value_bits"):
            high, low = getattr(self, name)
            for length in (high, low):
                BlockFormat(group=self.group, mantissa_bits=length)
            require(low <= high, f"{name}: old tokens have {low} bits, recent ones {high}")
        require(
            self.offset_channels >= 0,
            f"offset_channels must be at least 0, not {self.offset_channels!r}",
        )

    @staticmethod
    def of(params: CacheParams) -> "CacheFormat":
        """The format of the hardware's cache."""
        lengths = (params.high_bits, params.low_bits)
        return CacheFormat(
            group=params.group,
            initial=params.initial,
            local=params.local,
            key_bits=lengths,
            value_bits=lengths,
            offset_channels=params.offset_channels,
        )

    def size(self, tokens: int, channels: int) -> CacheSize:
        """One head's cache of ``tokens``; equals ``golden.harmonia.precision.cache_size``."""
        high, low = ([self._group_bits(k), self._group_bits(v)] for k, v in self._lengths)
        recent = min(tokens, self.initial) + min(max(tokens - self.initial, 0), self.local)
        per_token = -(-channels // self.group)
        keys = per_token * (recent * high[0] + (tokens - recent) * low[0])
        groups = -(-tokens // self.group)
        cut = max(0, (tokens - self.local) // self.group - self.initial // self.group)
        values = channels * ((groups - cut) * high[1] + cut * low[1])
        return CacheSize(tokens, channels, keys + values)

    @property
    def _lengths(self) -> list[tuple[int, int]]:
        """(key, value) at the high and at the low length."""
        return list(zip(self.key_bits, self.value_bits, strict=True))

    def _group_bits(self, length: int) -> int:
        return BlockFormat(group=self.group, mantissa_bits=length).group_bits


def attend(
    fmt: CacheFormat,
    q: Floats,
    k: Floats,
    v: Floats,
    convert_weights: Callable[[Floats], Floats],
    window: int | None = None,
    *,
    step: int = 1,
    offset_tokens: int | None = None,
) -> Floats:
    """Causal attention of q (heads, T, C), converted already, with k and v (key heads, S, C).

    Steps of a prompt begin at multiples of ``step`` tokens. ``convert_weights`` converts softmax's
    results (heads, queries, tokens) as ``Site.P``. With a ``window``, a query sees that many of the
    last tokens alone. The first ``offset_tokens`` (default: ``initial``) give the offsets.
    """
    shifted = without_offsets(fmt, k, offset_tokens)
    heads, count, channels = q.shape
    key_heads, tokens, _ = k.shape
    result = np.empty(q.shape, np.float32)
    low = start = tokens - count
    while low < tokens:
        high = min(tokens, low - low % step + step)
        rows = slice(low - start, high - start)
        queries = q[:, rows].reshape(key_heads, -1, channels)
        scores = queries @ cached_keys(fmt, shifted[:, :high]).swapaxes(1, 2)
        weights = convert_weights(softmax(scores.reshape(heads, -1, high), window))
        values = cached_values(fmt, v[:, :high])
        weighted = weights.reshape(key_heads, -1, high) @ values.swapaxes(1, 2)
        result[:, rows] = weighted.reshape(heads, -1, channels)
        low = high
    return result


def cached_keys(fmt: CacheFormat, shifted: Floats) -> Floats:
    """All keys (key heads, S, C), less their offsets, as a cache of S tokens holds them."""
    tokens = shifted.shape[1]
    token = np.arange(tokens)
    recent, old = (truncate(shifted, fmt.group, bits) for bits in fmt.key_bits)
    is_old = (token >= fmt.initial) & (token < tokens - fmt.local)
    return np.where(is_old[:, np.newaxis], old, recent)


def cached_values(fmt: CacheFormat, values: Floats) -> Floats:
    """All values (key heads, S, C) as a cache of S tokens holds them: (key heads, C, S)."""
    tokens = values.shape[1]
    end = np.arange(tokens) // fmt.group * fmt.group + fmt.group  # the end of each token's group
    recent, old = (truncate(values.swapaxes(1, 2), fmt.group, bits) for bits in fmt.value_bits)
    return np.where((end > fmt.initial) & (end <= tokens - fmt.local), old, recent)


def without_offsets(fmt: CacheFormat, keys: Floats, offset_tokens: int | None = None) -> Floats:
    """A copy of the keys less their channels' offsets, rounded as the hardware rounds them."""
    shifted = keys.copy()
    if fmt.offset_channels == 0:
        return shifted
    for head in shifted:
        window = head[: fmt.initial if offset_tokens is None else offset_tokens]
        halved = largest_halved(window.astype(np.float16).view(np.uint16), fmt.offset_channels)
        offset = halved.view(np.float16).astype(np.float64)
        chosen = np.flatnonzero(offset)
        # Differences of fp16 values are exact in float64, so they are rounded once.
        exact = head[:, chosen].astype(np.float16).astype(np.float64)
        head[:, chosen] = (exact - offset[chosen]).astype(np.float16)
    return shifted
