"""Magnitude pruning to an exact count, over matrices that are only ever seen piece by piece."""

from collections.abc import Callable, Iterable
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

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
