"""Attention of many queries, each of which meets the KV cache as it was when the query came.

Harmonia's cache changes with every token: a key that leaves the local window loses mantissa bits, a
group of values is unfinished until its last token has come. Measuring a text token by token would
convert the cache thousands of times. Here query t meets exactly what
``tilewright.golden.harmonia.KvCache`` holds after t + 1 tokens, but each form of a key or value is
made once: at its high and its low length, and for a query's own group of values also at the
exponents the group had until then.

Offsets of K come from the first ``initial`` tokens of the sequence, whose first call is the prompt.
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from tilewright.golden.harmonia.offset import largest_halved
from tilewright.golden.harmonia.precision import CacheSize
from tilewright.golden.llm.blockfloat import mantissa_step, round_to_fp16, truncate
from tilewright.golden.llm.sites import Floats, softmax
from tilewright.golden.params.block import require
from tilewright.golden.params.formats import BlockFormat
from tilewright.golden.params.harmonia import CacheParams

# Groups of queries at a time: the products with all old tokens are few and large, as BLAS likes
# them; those with recent ones are small enough to stay on one core.
_BLOCK_GROUPS = 32


@dataclass(frozen=True, kw_only=True)
class CacheFormat:
    """Mantissa lengths of keys and values, those in the initial and local window first.

    :class:`tilewright.golden.params.harmonia.CacheParams` with a length for keys and one for
    values, which may be longer than the eight bits of the hardware.
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
) -> Floats:
    """Causal attention of q (heads, T, C), converted already, with k and v (key heads, S, C).

    ``convert_weights`` converts softmax's results (heads, queries, tokens) as ``Site.P``, in place,
    for some of the queries and all tokens up to the last of them. What it returns is used up; k
    and v are left as they are. With a ``window``, a query gives weight to that many of the last
    tokens alone; the cache itself is that of a layer without one.
    """
    keys, values = _Keys(fmt, k), _Values(fmt, v)
    heads, count, channels = q.shape
    start = keys.tokens - count
    queries = q.reshape(keys.heads, -1, count, channels)
    result = np.empty(queries.shape, np.float32)
    block = _BLOCK_GROUPS * fmt.group
    for first in range(start - start % block, keys.tokens, block):
        low, high = max(first, start), min(first + block, keys.tokens)
        rows = slice(low - start, high - start)
        flat = np.ascontiguousarray(queries[:, :, rows]).reshape(keys.heads, -1, channels)
        scores = keys.scores(flat, low, high).reshape(heads, -1, high)
        weights = convert_weights(softmax(scores, window)).reshape(keys.heads, -1, high)
        result[:, :, rows] = values.weighted(weights, low, high)
    return result.reshape(heads, count, channels)


def _groups(fmt: CacheFormat, low: int, high: int) -> Iterator[tuple[int, slice, slice]]:
    """Queries low..high - 1 by the group they share: its first token, their rows, they."""
    for own in range(low - low % fmt.group, high, fmt.group):
        start, stop = max(own, low), min(own + fmt.group, high)
        yield own, slice(start - low, stop - low), slice(start, stop)


class _Keys:
    """Converted keys (key heads, C, S): recent ones, and as they are once they are old."""

    def __init__(self, fmt: CacheFormat, keys: Floats):
        self.fmt = fmt
        self.heads, self.tokens, _ = keys.shape
        shifted = without_offsets(fmt, keys)
        high, low = fmt.key_bits
        self.recent = truncate(shifted, fmt.group, high).swapaxes(1, 2)
        self.old = truncate(shifted.copy(), fmt.group, low).swapaxes(1, 2)
        self.old[:, :, : fmt.initial] = self.recent[:, :, : fmt.initial]  # these never age

    def scores(self, queries: Floats, low: int, high: int) -> Floats:
        """(key heads, rows, high): key p is old for query t if initial <= p < t + 1 - local."""
        fmt = self.fmt
        key_heads, _, channels = queries.shape
        result = queries @ self.old[:, :, :high]
        by_query = result.reshape(key_heads, -1, high - low, high)
        split = queries.reshape(key_heads, -1, high - low, channels)
        for _, rows, members in _groups(fmt, low, high):
            begin = max(fmt.initial, members.start + 1 - fmt.local)
            if begin < members.stop:
                part = slice(begin, members.stop)
                recent = split[:, :, rows] @ self.recent[:, np.newaxis, :, part]
                oldest = np.arange(members.start, members.stop)[:, np.newaxis] + 1 - fmt.local
                is_recent = np.arange(begin, members.stop) >= oldest
                np.copyto(by_query[:, :, rows, part], recent, where=is_recent)
        return result


class _Values:
    """Converted values (key heads, C, S), groups along the tokens; old as of the keys."""

    def __init__(self, fmt: CacheFormat, values: Floats):
        self.fmt = fmt
        self.halves = round_to_fp16(values.copy())  # (key heads, S, C)
        high, low = fmt.value_bits
        recent = truncate(self.halves.swapaxes(1, 2).copy(), fmt.group, high)
        self.old = truncate(recent.copy(), fmt.group, low)
        self.old[:, :, : fmt.initial] = recent[:, :, : fmt.initial]
        self.lost = recent - self.old  # the bits that ageing takes, exactly

    def weighted(self, weights: Floats, low: int, high: int) -> Floats:
        """(key heads, heads that share one, queries, C); the weights are used up.

        A group that ends with token e is old for query t if initial < e <= t + 1 - local. The
        query's own group is unfinished and has the high length, whatever the windows.
        """
        fmt = self.fmt
        key_heads, count, channels = len(weights), high - low, self.halves.shape[-1]
        by_query = weights.reshape(key_heads, -1, count, high)
        result = np.empty((*by_query.shape[:3], channels), np.float32)
        for own, rows, members in _groups(fmt, low, high):
            part = slice(own, members.stop)
            mine = by_query[:, :, rows, part].swapaxes(1, 2)  # (.., queries, sharing, tokens)
            unfinished = self._own_group(own, members.start, members.stop)
            result[:, :, rows] = (mine @ unfinished).swapaxes(1, 2)
            by_query[:, :, rows, part] = 0
        result += (weights @ self.old[:, :, :high].swapaxes(1, 2)).reshape(result.shape)
        for own, rows, members in _groups(fmt, low, high):
            window = own - fmt.local
            begin = max(fmt.initial, window)
            if begin < own:
                if begin == window and members.stop == own + fmt.group:
                    # The window's first group leaves it with the last query of this one.
                    by_query[:, :, rows.stop - 1, begin : begin + fmt.group] = 0
                lost = self.lost[:, np.newaxis, :, begin:own].swapaxes(2, 3)
                result[:, :, rows] += by_query[:, :, rows, begin:own] @ lost
        return result

    def _own_group(self, own: int, low: int, high: int) -> Floats:
        """(key heads, queries, tokens own..high - 1, C): their group as each query finds it.

        Its exponents are those of the tokens up to the query; later tokens mean nothing.
        """
        fmt = self.fmt
        tokens = self.halves[:, own:high]
        largest = np.maximum.accumulate(np.abs(tokens), axis=1)[:, low - own :]
        recent_bits, old_bits = fmt.value_bits
        step = mantissa_step(largest, recent_bits)
        if fmt.local == 0 and high == own + fmt.group and own >= fmt.initial:
            step[:, -1] *= np.float32(2.0 ** (recent_bits - old_bits))  # finished and old at once
        result = tokens[:, np.newaxis] * (np.float32(1) / step)[:, :, np.newaxis]
        np.trunc(result, out=result)
        result *= step[:, :, np.newaxis]
        return result


def without_offsets(fmt: CacheFormat, keys: Floats) -> Floats:
    """A copy of the keys less their channels' offsets, rounded as the hardware rounds them."""
    shifted = keys.copy()
    if fmt.offset_channels == 0:
        return shifted
    for head in shifted:
        offset = _offsets(fmt, head)
        chosen = np.flatnonzero(offset)
        # Differences of fp16 values are exact in float64, so they are rounded once.
        exact = head[:, chosen].astype(np.float16).astype(np.float64)
        head[:, chosen] = (exact - offset[chosen]).astype(np.float16)
    return shifted


def _offsets(fmt: CacheFormat, keys: Floats) -> NDArray[np.float64]:
    window = keys[: fmt.initial].astype(np.float16).view(np.uint16)
    found = largest_halved(window, fmt.offset_channels)
    return found.view(np.float16).astype(np.float64)
