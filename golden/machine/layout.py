"""Rows of on-chip memories as bytes of external memory: elements in order, the first lowest.

Whole lines, padded with zeros.
"""

from typing import Any

import numpy as np
from numpy.typing import NDArray


def element_dtype(params: Any, memory: Any) -> np.dtype:
    """The numpy type that holds an element of a row."""
    return np.dtype(f"<u{max(1, params.element_bits(memory) // 8)}")


def to_bytes(params: Any, memory: Any, rows: NDArray) -> NDArray[np.uint8]:
    """Rows in external memory."""
    bits = params.element_bits(memory)
    flat = np.ascontiguousarray(rows, element_dtype(params, memory)).reshape(-1)
    data: NDArray[np.uint8]
    if bits == 1:
        data = np.packbits(flat.astype(bool), bitorder="little")
    elif bits == 4:
        low, high = flat.reshape(-1, 2).T
        data = np.bitwise_or(low, np.left_shift(high, 4), dtype=np.uint8)
    else:
        data = flat.view(np.uint8)
    return np.concatenate([data, np.zeros(-len(data) % params.line_bytes, np.uint8)])


def from_bytes(params: Any, memory: Any, data: NDArray[np.uint8], rows: int) -> NDArray:
    """Undo :func:`to_bytes`."""
    bits, octets = params.element_bits(memory), np.ascontiguousarray(data)
    if bits == 1:
        flat = np.unpackbits(octets, bitorder="little")
    elif bits == 4:
        both = octets.astype("<u2")  # the upper half of a byte into a byte of its own
        flat = ((both | both << 4) & 0x0F0F).view(np.uint8)
    else:
        flat = octets.view(element_dtype(params, memory))
    shape = params.row_shape(memory)
    return flat[: rows * int(np.prod(shape))].reshape(rows, *shape)
