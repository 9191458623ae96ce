"""The offset generator on a stream of beats: its results and their cycles."""

import numpy as np
from numpy.typing import NDArray

from tilewright.golden.harmonia.offset import largest_halved, subtract
from tilewright.golden.params.harmonia import HarmoniaOffsetParams
from tilewright.golden.payload import Columns

# After the last beat of a window: its maximum is written, read back with all the others, one a
# cycle, and the last of them enters the list.
SELECTION_CYCLES = 2


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
    """First beat and end of every run of one kind."""
    starts = np.flatnonzero(np.diff(learn.astype(np.int8), prepend=-1))
    return list(zip(starts.tolist(), [*starts[1:].tolist(), len(learn)], strict=True))
