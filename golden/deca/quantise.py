"""Weights to codes and scales, and which are stored. Offline work: no hardware sees any of it.

Scales
    e8m0  the OCP MX rule: the exponent of the group's largest magnitude, less the exponent of the
          scheme's reach, clamped to the byte 0..254. A group of zeros gets byte 0.
    bf16  the group's largest magnitude over the reach, rounded to bf16 and kept within its normal
          numbers, since the scaler counts a subnormal scale as zero.

Codes
    The value of the book nearest to weight / scale (a float32 quotient); a tie goes to the even
    code, which is nearest-even for every float and integer format. Beyond the book's ends the last
    value is taken: no weight becomes infinity or NaN. The lowest of several codes with one value is
    used, negative zero only for negative weights.
"""

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from functools import lru_cache
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from tilewright.golden.bits import decode, decode_scale, encode
from tilewright.golden.deca.scheme import Scheme
from tilewright.golden.deca.tiles import Tiles
from tilewright.golden.params.arith import FloatRules
from tilewright.golden.params.deca import ScaleKind
from tilewright.golden.params.formats import BF16, E8M0, Overflow

_SATURATE = FloatRules(overflow=Overflow.SATURATE)
_SMALLEST_NORMAL = np.uint16(1 << BF16.mantissa_bits)


def quantise(scheme: Scheme, weights: NDArray[np.float32], mask: NDArray[np.bool_]) -> Tiles:
    """Finite weights (tiles, elements) as codes and scales; those outside ``mask`` count as 0."""
    config = scheme.config
    kept = np.where(mask, weights, np.float32(0)) if config.sparse else weights
    if config.scale is ScaleKind.NONE:
        scales = np.zeros((len(kept), 0), np.uint8)
        quotients = kept
    else:
        groups = kept.reshape(len(kept), -1, config.group)
        largest = np.abs(groups).max(axis=-1)
        scales, divisors = _group_scales(scheme, largest)
        quotients = (groups / divisors[..., np.newaxis]).reshape(kept.shape)
    codes = _nearest_codes(scheme, quotients)
    return Tiles(mask, np.where(mask, codes, 0).astype(codes.dtype), scales)


def row_scales(scheme: Scheme, largest: NDArray[np.float32]) -> NDArray[np.float32]:
    """Scales of whole matrix rows, of which ``largest`` is the largest magnitude.

    int8 tiles take no scales in hardware; their rows are scaled after the multiplication.
    """
    smallest = np.finfo(np.float32).tiny
    return np.maximum(largest / np.float32(scheme.reach), smallest)


def _group_scales(
    scheme: Scheme, largest: NDArray[np.float32]
) -> tuple[NDArray, NDArray[np.float32]]:
    """Scale patterns for groups of that largest magnitude, and their values."""
    if scheme.config.scale is ScaleKind.E8M0:
        _, exponent = np.frexp(largest)  # largest = f * 2^exponent, 0.5 <= f < 1
        power = np.where(largest > 0, exponent - 1 - _floor_log2(scheme.reach), -E8M0.bias)
        byte = np.clip(power + E8M0.bias, 0, E8M0.nan_bits - 1).astype(np.uint8)
        return byte, decode_scale(E8M0, byte).astype(np.float32)
    bits = encode(BF16, largest.astype(np.float64) / scheme.reach, _SATURATE)
    bits = np.maximum(bits, _SMALLEST_NORMAL)
    return bits, decode(BF16, bits).astype(np.float32)


def _floor_log2(value: float) -> int:
    return int(np.frexp(value)[1]) - 1


class Rounder(NamedTuple):
    """Nearest code of a float32 by its upper half, which is a bf16 rounded toward zero.

    Values of a book are bf16, so between two neighbouring bf16 numbers lies at most one threshold
    where the nearest value changes: two candidates and a comparison decide.
    """

    threshold: NDArray[np.float32]  # (2^16,) by upper half: from here on, inclusive, ...
    upper: NDArray[np.uint8]  # ... this code, ...
    lower: NDArray[np.uint8]  # ... below it this one

    def __call__(self, values: NDArray[np.float32]) -> NDArray[np.uint8]:
        half = values.view(np.uint32) >> 16
        return np.where(values >= self.threshold[half], self.upper[half], self.lower[half])


@lru_cache
def rounder(scheme: Scheme) -> Rounder:
    """The rounding to the nearest code of a scheme of at most 8 bits."""
    codes, thresholds = thresholds_of(scheme.values)
    half = np.arange(1 << 16, dtype=np.uint32) << 16
    ends = np.stack([half, half | 0xFFFF]).view(np.float32)
    ends[:, ~np.isfinite(ends).all(axis=0)] = 0
    below, above = (
        np.searchsorted(thresholds, end, side="right") for end in (ends.min(0), ends.max(0))
    )
    return Rounder(np.append(thresholds, np.float32(0))[below], codes[above], codes[below])


def thresholds_of(values: NDArray[np.float64]) -> tuple[NDArray[np.uint8], NDArray[np.float32]]:
    """Codes of distinct finite values in rising order, and where each but the first begins."""
    negative = np.signbit(values)
    finite = np.flatnonzero(np.isfinite(values))
    order = finite[np.lexsort((finite, ~negative[finite], values[finite]))]  # -0 before +0
    before, after = order[:-1], order[1:]
    repeated = (values[before] == values[after]) & (negative[before] == negative[after])
    codes = order[np.concatenate([[True], ~repeated])]
    lower, upper = values[codes[:-1]], values[codes[1:]]
    middle = lower + (upper - lower) / 2
    tie_up = codes[1:] % 2 == 0
    threshold = np.where(tie_up, middle, np.nextafter(middle, np.inf))
    return codes.astype(np.uint8), _ceil_float32(threshold)


def _ceil_float32(values: NDArray[np.float64]) -> NDArray[np.float32]:
    """The smallest float32 not below each value: comparing a float32 with either is the same."""
    near = values.astype(np.float32)
    return np.where(near < values, np.nextafter(near, np.float32(np.inf)), near)


def _nearest_codes(scheme: Scheme, quotients: NDArray[np.float32]) -> NDArray:
    if scheme.config.code_bits == 16:
        return encode(BF16, quotients, _SATURATE)
    return rounder(scheme)(quotients)


_LOW_BITS = 16  # of a float32 pattern: the two passes share its 31 magnitude bits


@dataclass
class Pruner:
    """Keeps the largest magnitudes; of those equal to the limit, the first ``ties``."""

    limit: int  # float32 pattern of the smallest magnitude that may stay
    ties: int  # how many of exactly that magnitude stay

    @classmethod
    def exact(cls, pieces: Callable[[], Iterable[NDArray[np.float32]]], keep: int) -> "Pruner":
        """A pruner that keeps ``keep`` of all weights, or all nonzero ones where there are fewer.

        ``pieces()`` is gone through twice: a histogram of the patterns' upper half finds the
        limit's, a second one inside that bin finds the rest, so memory never depends on size.
        """
        upper = np.zeros(1 << (31 - _LOW_BITS), np.int64)
        for piece in pieces():
            upper += np.bincount(_magnitudes(piece) >> _LOW_BITS, minlength=len(upper))
        high, above = _bin_of(upper, keep)
        lower = np.zeros(1 << _LOW_BITS, np.int64)
        for piece in pieces():
            patterns = _magnitudes(piece)
            inside = patterns[patterns >> _LOW_BITS == high] & ((1 << _LOW_BITS) - 1)
            lower += np.bincount(inside, minlength=len(lower))
        low, above_inside = _bin_of(lower, keep - above)
        return cls(high << _LOW_BITS | low, keep - above - above_inside)

    def mask(self, weights: NDArray[np.float32]) -> NDArray[np.bool_]:
        """The weights that stay; the order of the pieces decides ties."""
        patterns = _magnitudes(weights)
        stay = patterns > self.limit
        if self.ties and self.limit:
            equal = np.flatnonzero(patterns == self.limit)[: self.ties]
            stay[equal] = True
            self.ties -= len(equal)
        return stay.reshape(weights.shape)


def _magnitudes(weights: NDArray[np.float32]) -> NDArray[np.int32]:
    """Patterns without the sign, which order as the magnitudes do."""
    return np.ascontiguousarray(weights, np.float32).reshape(-1).view(np.int32) & 0x7FFFFFFF


def _bin_of(histogram: NDArray[np.int64], rank: int) -> tuple[int, int]:
    """The bin of the ``rank``-th largest pattern, counted from 1, and how many lie above it."""
    at_least = np.cumsum(histogram[::-1])[::-1]
    bins = np.flatnonzero(at_least >= rank)
    chosen = int(bins[-1]) if len(bins) else 0
    return chosen, int(at_least[chosen] - histogram[chosen])
