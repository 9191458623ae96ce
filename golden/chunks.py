"""Work through long arrays in pieces that stay in a core's cache, on every core.

A numpy expression streams each of its temporaries through memory; on pieces of a few thousand
elements the temporaries never leave the cache, and the interpreter lock is free while numpy works.
Splitting never changes a result: every function run this way treats its pieces independently.
"""

import os
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor

import numpy as np
from numpy.typing import ArrayLike, DTypeLike, NDArray

CHUNK = (
    1 << 14
)  # elements; a dozen 64-bit temporaries of a piece fit in 2 MiB of second-level cache


def for_each_piece(work: Callable[[slice], None], length: int, step: int) -> None:
    """``work(piece)`` for consecutive slices of ``step`` that cover ``range(length)``.

    Pieces must be independent. The exception of the earliest failing piece is raised.
    """
    pieces = [slice(start, min(start + step, length)) for start in range(0, length, step)]
    workers = min(len(pieces), os.cpu_count() or 1)
    if workers <= 1:
        for piece in pieces:
            work(piece)
        return
    with ThreadPoolExecutor(workers) as pool:
        for _ in pool.map(work, pieces):
            pass


def elementwise(
    function: Callable[..., NDArray], dtype: DTypeLike, *operands: ArrayLike
) -> NDArray:
    """``function`` of equally shaped pieces of the broadcast ``operands``, as one array."""
    arrays = np.broadcast_arrays(*operands)
    out = np.empty(arrays[0].shape, dtype)
    flat_out, flat = out.reshape(-1), [a.reshape(-1) for a in arrays]

    def work(piece: slice) -> None:
        flat_out[piece] = function(*(a[piece] for a in flat))

    for_each_piece(work, flat_out.size, CHUNK)
    return out
