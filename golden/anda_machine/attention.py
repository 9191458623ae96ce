"""The two vector operations of attention, on fp16 patterns.

Terms are products of two fp16 values, exact in fp32, and added in fp32 one after the other, from
+0 on. numpy's float32 is that arithmetic; only the patterns of NaN are made one.
"""

import numpy as np
from numpy.typing import NDArray

from tilewright.golden.params.formats import FP16

Patterns = NDArray[np.uint16]


def dots(a: Patterns, b: Patterns, elements: int, scale: int) -> Patterns:
    """Dot products of (results, beats, banks, lanes) with (beats, banks, lanes), times ``scale``.

    The first ``elements`` of a sum count. Words (words, banks, lanes) whose elements are the
    results of a bank, one behind the other; +0 behind the last.
    """
    results, beats, banks, lanes = a.shape
    factor = np.array(scale, np.uint16).view(np.float16).astype(np.float64)
    words = np.zeros((-(-results // lanes) * lanes, banks), np.uint16)
    with np.errstate(all="ignore"):
        terms = _values(a) * _values(b)
        terms[:, -1, :, elements - (beats - 1) * lanes :] = 0
        sums = _added(terms)
        while sums.shape[-1] > 1:
            sums = sums[..., 0::2] + sums[..., 1::2]
        words[:results] = _patterns(sums[..., 0].astype(np.float64) * factor)
    return np.ascontiguousarray(words.reshape(-1, lanes, banks).transpose(0, 2, 1))


def weighed(a: Patterns, weights: Patterns) -> Patterns:
    """Sums of (results, beats, banks, lanes), each beat times its weight of (banks, beats)."""
    with np.errstate(all="ignore"):
        return _patterns(_added(_values(a) * _values(weights.T[..., np.newaxis])))


def _added(terms: NDArray[np.float32]) -> NDArray[np.float32]:
    """The sums of all beats, one after the other, from +0 on."""
    total = np.zeros((len(terms), *terms.shape[2:]), np.float32)
    for beat in range(terms.shape[1]):
        total += terms[:, beat]
    return total


def _values(patterns: Patterns) -> NDArray[np.float32]:
    return patterns.view(np.float16).astype(np.float32)


def _patterns(values: NDArray) -> Patterns:
    found: Patterns = values.astype(np.float16).view(np.uint16)
    found[(found & 0x7FFF) > (FP16.infinity_bits or 0)] = FP16.nan_bits or 0
    return found
