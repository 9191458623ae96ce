"""Tensors and weights as rows of the accelerator's memories.

Rows are arrays (rows, words): for the activation buffer one word of ``group`` bits per bank, for
exponents one byte per bank, for weights ``planes_per_beat * columns`` words, for scales one fp16
pattern per column.
"""

from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

from tilewright.golden.anda.image import TensorLayout, store, weight_planes, weight_scales
from tilewright.golden.bfp import encode
from tilewright.golden.machine.layout import element_dtype
from tilewright.golden.params.anda_machine import AndaParams, Memory
from tilewright.golden.weights import Weights


class Planes(NamedTuple):
    """An Anda tensor of one token tile."""

    rows: NDArray  # (groups * (1 + M), banks)
    exponents: NDArray[np.uint8]  # (groups, banks)


def fp16_rows(params: AndaParams, values: ArrayLike) -> NDArray:
    """Rows of fp16 patterns (tokens, elements), up to ``params.rows`` tokens; zero-padded."""
    values = np.asarray(values, np.uint16)
    tokens, elements = _checked(params, values.shape)
    groups = -(-elements // params.group)
    padded = np.zeros((params.rows, groups * params.group), "<u2")
    padded[:tokens, :elements] = values
    words = padded.view(element_dtype(params, Memory.ACTIVATIONS))  # (banks, groups * 16)
    return np.ascontiguousarray(words.T)


def fp16_values(params: AndaParams, rows: NDArray, elements: int) -> NDArray[np.uint16]:
    """Undo :func:`fp16_rows`, for all banks: (banks, elements)."""
    dtype = element_dtype(params, Memory.ACTIVATIONS)
    words = np.ascontiguousarray(rows.T.astype(dtype, copy=False))
    return words.view("<u2")[:, :elements]


def anda_rows(params: AndaParams, mantissa: int, values: ArrayLike) -> Planes:
    """The Anda tensor of fp16 patterns (tokens, elements); infinities and NaN saturate."""
    values = np.asarray(values, np.uint16)
    tokens, elements = _checked(params, values.shape)
    padded = np.zeros((params.rows, elements), np.uint16)
    padded[:tokens] = values
    fmt = params.mxu.numerics.block_format(mantissa)
    layout = TensorLayout(fmt=fmt, rows=params.rows, length=elements, lanes=params.rows)
    return Planes(*store(layout, encode(fmt, padded, saturate=True)))


def weight_rows(params: AndaParams, weights: Weights) -> tuple[NDArray, NDArray[np.uint16]]:
    """Rows of the weight buffer and of the scale memory; zero-padded to whole blocks."""
    tiles, columns = params.block_tiles, params.columns
    planes = weight_planes(weights, params.group, tiles * columns)
    planes = planes.reshape(-1, params.weight_bits, tiles, columns).swapaxes(1, 2)
    scales = weight_scales(weights, params.group, tiles * columns)
    return planes.reshape(-1, params.planes_per_beat * columns), scales.reshape(-1, columns)


def _checked(params: AndaParams, shape: tuple[int, ...]) -> tuple[int, int]:
    if len(shape) != 2 or not 1 <= shape[0] <= params.rows or shape[1] < 1:
        raise ValueError(f"a token tile is (1..{params.rows}, elements) values, not {shape}")
    return shape[0], shape[1]
