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
from tilewright.golden.params.harmonia import CacheParams, HarmoniaOffsetParams
from tilewright.golden.payload import Columns

_HALF = encode(FP16, 0.5)
_SIGN = 1 << (FP16.bits - 1)
# After the last beat of a window: its maximum is written, read back with all the others, one a
# cycle, and the last of them enters the list.
SELECTION_CYCLES = 2


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


# --- the offset generator on a stream of beats


def results(params: HarmoniaOffsetParams, beats: Columns) -> NDArray[np.uint16]:
    """Values of the beats that do not learn, less their channels' offsets."""
    learn = beats["learn"].astype(bool)
    given = []
    offset = np.zeros(params.channels, np.uint16)
    for start, end in _runs(learn):
        run = slice(start, end)
        if not learn[start]:
            channel = beats["channel"][run].astype(np.int64)[:, np.newaxis]
            shift = offset[channel + np.arange(params.width)].reshape(-1)  # by beat, by channel
            values = beats["values"][run].reshape(-1, params.rows)
            given.append(subtract(values.T, shift).T.reshape(len(channel), -1))
            continue
        count = int(beats["channel"][end - 1]) + 1
        # (token blocks, channels, rows) to (tokens, channels)
        blocks = beats["values"][run, : params.rows].reshape(-1, count, params.rows)
        window = blocks.swapaxes(1, 2).reshape(-1, count)
        offset = np.zeros(params.channels, np.uint16)
        offset[:count] = largest_halved(window, params.offsets)
    return np.concatenate([np.zeros((0, params.rows * params.width), np.uint16), *given])


def cycles(params: HarmoniaOffsetParams, beats: Columns) -> NDArray[np.int64]:
    """Cycle of every output beat, counted from the first input beat, if nobody ever waits."""
    learn, last = beats["learn"].astype(bool), beats["last"].astype(bool)
    busy = np.where(learn & last, SELECTION_CYCLES + beats["channel"].astype(np.int64) + 1, 0)
    taken = np.arange(len(learn)) + np.concatenate([[0], np.cumsum(busy)[:-1]])
    return taken[~learn] + params.latency


def _runs(learn: NDArray[np.bool_]) -> list[tuple[int, int]]:
    starts = np.flatnonzero(np.diff(learn.astype(np.int8), prepend=-1))
    return list(zip(starts.tolist(), [*starts[1:].tolist(), len(learn)], strict=True))
