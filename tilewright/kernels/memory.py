"""Memory for weights: aligned, on large pages where the system has them."""

import mmap

import numpy as np
from numpy.typing import NDArray

HUGE_PAGE = 2 << 20  # bytes, on x86-64 and most of AArch64
SLACK = 64  # bytes that a kernel may read behind the last one


def weight_bytes(count: int) -> NDArray[np.uint8]:
    """``count`` zero bytes, with ``SLACK`` readable ones behind them.

    Large arrays begin on a 2 MiB boundary and ask for pages of that size: a stream of weights
    then needs one address translation where it would need 512.
    """
    if count < HUGE_PAGE:
        raw = np.zeros(count + SLACK + 64, np.uint8)
        start = -raw.__array_interface__["data"][0] % 64
        return raw[start : start + count]
    length = -(-(count + SLACK) // HUGE_PAGE) * HUGE_PAGE + HUGE_PAGE
    area = mmap.mmap(-1, length)
    if hasattr(mmap, "MADV_HUGEPAGE"):
        area.madvise(mmap.MADV_HUGEPAGE)
    raw = np.frombuffer(area, np.uint8)
    start = -raw.__array_interface__["data"][0] % HUGE_PAGE
    return raw[start : start + count]


def as_weight_bytes(array: NDArray) -> NDArray:
    """A copy of ``array`` in such memory, of the same type and shape."""
    content = np.ascontiguousarray(array)
    room = weight_bytes(content.nbytes)
    copy = room.view(content.dtype).reshape(content.shape)
    copy[...] = content
    return copy


def with_slack(array: NDArray) -> NDArray[np.uint8]:
    """The bytes of an array of :func:`weight_bytes`, and the readable ones behind them."""
    flat = array.reshape(-1).view(np.uint8)
    return np.lib.stride_tricks.as_strided(flat, (len(flat) + SLACK,), (1,))


def address(array: NDArray) -> int:
    """Address of the first element of an array."""
    return array.ctypes.data
