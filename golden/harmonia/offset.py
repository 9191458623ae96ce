"""Online smoothing of K: a few channels with large values are shifted toward zero.

Softmax does not change when every score of a query changes by the same amount, so a constant may be
subtracted from a K channel of all tokens. The constants derive from the first tokens: every
channel's value of largest magnitude, with its sign; the k largest of those; half of each.

Choices where the paper is silent: the offset has the channel's sign (else it would push negative
channels away from zero), the earlier token and the lower channel win ties, and a prompt shorter
than the window determines the offsets by itself. They never change afterwards.
"""

import numpy as np
from numpy.typing import ArrayLike, NDArray

from tilewright.golden import arith
from tilewright.golden.bits import encode, patterns
from tilewright.golden.params.formats import FP16
from tilewright.golden.params.harmonia import CacheParams

_HALF = encode(FP16, 0.5)
_SIGN = 1 << (FP16.bits - 1)


def offsets(params: CacheParams, keys: ArrayLike) -> NDArray[np.uint16]:
    """Offset of every channel, fp16 patterns, from the prompt's K of shape (tokens, channels)."""
    return largest_halved(patterns(FP16, keys)[: params.initial], params.offset_channels)


def largest_halved(window: NDArray, count: int) -> NDArray[np.uint16]:
    """Half the signed maximum of the ``count`` channels where it is largest, 0 elsewhere."""
    if len(window) == 0:
        return np.zeros(window.shape[1], np.uint16)
    extreme = signed_maximum(window.astype(np.uint16))
    magnitude = extreme & (_SIGN - 1)
    chosen = np.argsort(-magnitude.astype(np.int32), kind="stable")[:count]
    result = np.zeros_like(extreme)
    halved = arith.multiply(FP16, FP16, FP16, extreme[chosen], _HALF)
    # An offset is always finite: infinity and NaN give what their pattern is a binade lower.
    finite = magnitude[chosen] <= FP16.max_finite_bits
    result[chosen] = np.where(finite, halved, extreme[chosen] - (1 << FP16.mantissa_bits))
    return result


def signed_maximum(keys: NDArray[np.uint16]) -> NDArray[np.uint16]:
    """The value of largest magnitude of every channel, the earliest of ties."""
    earliest = np.argmax(keys & (_SIGN - 1), axis=0)
    return np.take_along_axis(keys, earliest[np.newaxis], axis=0)[0]


def subtract(keys: ArrayLike, offset: NDArray[np.uint16]) -> NDArray[np.uint16]:
    """K less its channels' offsets, rounded to fp16; a channel without offset passes unchanged."""
    words = patterns(FP16, keys).astype(np.uint16)
    shifted = arith.add(FP16, FP16, FP16, words, offset ^ _SIGN)
    return np.where(offset & (_SIGN - 1), shifted, words)
