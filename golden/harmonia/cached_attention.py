"""Attention of many queries, each over the KV cache of its own time, in float32.

Harmonia's cache changes with every token: a key that leaves the local window loses mantissa bits,
and a group of values is unfinished until its last token. Query t sees
:class:`tilewright.golden.harmonia.cache.KvCache` of t + 1 tokens, or, where the accelerator
processes a prompt in steps of several tokens, the cache at the end of its step.
"""

from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray

from tilewright.golden.harmonia.offset import largest_halved
from tilewright.golden.harmonia.precision import key_bits, value_bits
from tilewright.golden.llm.formats import truncate
from tilewright.golden.llm.sites import Floats, softmax
from tilewright.golden.params.harmonia import CacheParams


def attend(
    fmt: CacheParams,
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


def cached_keys(fmt: CacheParams, shifted: Floats) -> Floats:
    """All keys (key heads, S, C), less their offsets, as a cache of S tokens holds them."""
    lengths = key_bits(fmt, shifted.shape[1])[:, np.newaxis]
    return _truncated(fmt, shifted, fmt.key_bits, lengths)


def cached_values(fmt: CacheParams, values: Floats) -> Floats:
    """All values (key heads, S, C) as a cache of S tokens holds them: (key heads, C, S)."""
    tokens = values.shape[1]
    lengths = np.repeat(value_bits(fmt, tokens), fmt.group)[:tokens]
    return _truncated(fmt, values.swapaxes(1, 2), fmt.value_bits, lengths)


def _truncated(
    fmt: CacheParams, values: Floats, bits: tuple[int, int], lengths: NDArray[np.uint8]
) -> Floats:
    recent, old = (truncate(values, fmt.group, length) for length in bits)
    return np.where(lengths == bits[0], recent, old)


def without_offsets(fmt: CacheParams, keys: Floats, offset_tokens: int | None = None) -> Floats:
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
