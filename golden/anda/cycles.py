"""How many cycles APU and MXU take when nobody makes them wait; the RTL takes the same."""

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from tilewright.golden.params.anda import AndaApuParams, AndaMxuParams

# From a dot product's last plane to its result: scaled, accumulated, then it is there.
RESULT_LATENCY = 3


def group_cycles(mantissa_bits: int) -> int:
    return 1 + mantissa_bits


def dot_cycles(
    params: AndaApuParams, mantissa_bits: Sequence[int], last: Sequence[bool]
) -> NDArray[np.int64]:
    """Cycle in which an APU offers each result, counted from the first plane taken.

    One entry per group: its M, and whether it ends a dot product.
    """
    taken = np.cumsum([group_cycles(bits) for bits in mantissa_bits]) - 1
    return taken[np.asarray(last, bool)] + params.result_latency


def mxu_schedule(
    params: AndaMxuParams,
    mantissa_bits: Sequence[int],
    last: Sequence[bool],
    beats: Sequence[int] | None = None,
) -> NDArray[np.int64]:
    """Cycle in which the MXU gives each row, counted from the first plane taken.

    One entry per group: its M, whether it ends a tile, and the beats of its weights. Neither planes
    nor weights are ever late, and rows are taken at once.
    """
    beats = beats or [params.common_beats] * len(last)
    rows: list[int] = []
    loaded = -1  # cycle in which the present group's weights arrived
    coming = [*beats[1:], 0]  # of the next one's
    multiplied = accumulated = -(params.rows + params.result_latency)  # of the group before
    free = left = accumulated  # the output's last row leaves; the last result left the sums
    finished = False  # a result is among the sums
    for bits, ends, following in zip(mantissa_bits, last, coming, strict=True):
        # The sign word waits until the group before is multiplied by its scale.
        taken = max(loaded + 1, multiplied) + bits
        multiplied = max(taken + 1, accumulated)
        accumulated = max(multiplied + params.scale_cycles, left if finished else 0)
        if ends:
            left = max(accumulated + 1, free + params.pipelined)
            free = left + params.rows
            rows.extend(range(left + 1, free + 1))
        finished = ends
        loaded = max(taken, loaded + following)
    return np.array(rows)
