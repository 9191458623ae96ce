"""Work through long arrays in pieces that stay in a core's cache, on every core.

A numpy expression streams each of its temporaries through memory; on pieces of a few thousand
elements the temporaries never leave the cache, and the interpreter lock is free while numpy works.
Splitting never changes a result: every function run this way treats its pieces independently.
"""

import os
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from itertools import pairwise

import numpy as np
from numpy.typing import ArrayLike, DTypeLike, NDArray

# Elements of a piece: a dozen 64-bit temporaries fit in 2 MiB of second-level cache.
CHUNK = 1 << 14


def for_each_piece(work: Callable[[slice], None], length: int, step: int) -> None:
    """``work(piece)`` for consecutive slices of ``step`` that cover ``length``, the last beyond it.

    Pieces must be independent. The exception of the earliest failing piece is raised.
    """
    pieces = [slice(start, start + step) for start in range(0, length, step)]

    def work_through(share: list[slice]) -> None:
        for piece in share:
            work(piece)

    workers = min(len(pieces), os.cpu_count() or 1) if len(pieces) > 1 else 1
    if workers == 1:
        work_through(pieces)
        return
    # One run of neighbouring pieces per worker: handing out each piece would cost more than it.
    bounds = [k * len(pieces) // workers for k in range(workers + 1)]
    shares = [pieces[low:high] for low, high in pairwise(bounds)]
    with ThreadPoolExecutor(workers) as pool:
        list(pool.map(work_through, shares))


def elementwise(
    function: Callable[..., NDArray], dtype: DTypeLike, *operands: ArrayLike
) -> NDArray:
    """``function`` of flat pieces of the broadcast ``operands``, as one array of ``dtype``."""
    arrays = np.broadcast_arrays(*operands)
    out = np.empty(arrays[0].shape, dtype)
    flat_out, flat = out.reshape(-1), [a.reshape(-1) for a in arrays]

    def work(piece: slice) -> None:
        flat_out[piece] = function(*(a[piece] for a in flat))

    for_each_piece(work, flat_out.size, CHUNK)
    return out
