"""Tensors and weights as rows of the memories.

A row of a memory is an array: (banks or columns) or (banks or columns, elements).
"""

from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

from tilewright.golden import bfp
from tilewright.golden.bfp import Blocks
from tilewright.golden.params.block import require
from tilewright.golden.params.harmonia import OPERAND_BITS
from tilewright.golden.params.harmonia_machine import HarmoniaParams
from tilewright.golden.weights import Weights


class ActivationRows(NamedTuple):
    """Rows of the three activation memories, token tile after token tile."""

    mantissas: NDArray[np.uint8]  # (rows, banks, group)
    signs: NDArray[np.uint8]  # (rows, banks, group)
    exponents: NDArray[np.uint8]  # (rows, banks)


class OperandRows(NamedTuple):
    """Rows of the memories for weights."""

    operands: NDArray[np.uint8]  # (rows, columns, group), two's complement
    scales: NDArray[np.uint16]  # (rows, columns)


def halves_rows(params: HarmoniaParams, values: ArrayLike) -> NDArray[np.uint16]:
    """Rows of fp16 patterns (tokens, elements), token tile after token tile; zero-padded."""
    padded = _tiled(params, values, params.word_values)
    tiles, banks = padded.shape[:2]
    words = padded.reshape(tiles, banks, -1, params.word_values)
    return words.swapaxes(1, 2).reshape(-1, banks, params.word_values)


def halves_values(params: HarmoniaParams, rows: NDArray, elements: int) -> NDArray[np.uint16]:
    """Undo :func:`halves_rows`, for all banks: (tokens, elements)."""
    words = -(-elements // params.word_values)
    tiles = rows.reshape(-1, words, params.rows, params.word_values).swapaxes(1, 2)
    return tiles.reshape(-1, words * params.word_values)[:, :elements]


def activation_rows(params: HarmoniaParams, values: ArrayLike) -> ActivationRows:
    """fp16 patterns (tokens, elements) in block floating point; infinities and NaN saturate."""
    padded = _tiled(params, values, params.group)
    blocks = bfp.encode(params.numerics.activation, padded, saturate=True)
    return activation_rows_of(blocks)


def activation_rows_of(blocks: Blocks) -> ActivationRows:
    """Blocks (token tiles, banks, groups, group) as rows."""
    group = blocks.mantissa.shape[-1]
    banks = blocks.mantissa.shape[1]
    mantissas, signs = (
        a.swapaxes(1, 2).reshape(-1, banks, group).astype(np.uint8)
        for a in (blocks.mantissa, blocks.sign)
    )
    return ActivationRows(mantissas, signs, blocks.exponent.swapaxes(1, 2).reshape(-1, banks))


def weight_rows(params: HarmoniaParams, weights: Weights) -> OperandRows:
    """A layer's weights, tile after tile of columns, group after group; zero-padded.

    With row groups, tiles are in blocks of one for each: of every group their rows follow
    one another.
    """
    p = params
    require(
        weights.fmt == p.numerics.weight_format,
        f"weights must have {OPERAND_BITS} bits, not {weights.fmt.bits}",
    )
    tiles = p.whole_tiles(-(-weights.outputs // p.columns))
    values, scales = weights.grouped(p.group, tiles * p.columns)
    across = p.row_groups * p.columns
    nibbles = (values & 15).astype(np.uint8).reshape(tiles // p.row_groups, across, -1, p.group)
    return OperandRows(
        nibbles.swapaxes(1, 2).reshape(-1, p.columns, p.group),
        scales.reshape(len(nibbles), across, -1).swapaxes(1, 2).reshape(-1, p.columns),
    )


def _tiled(params: HarmoniaParams, values: ArrayLike, unit: int) -> NDArray[np.uint16]:
    """fp16 patterns (tokens, elements) as (token tiles, banks, whole units of elements)."""
    values = np.asarray(values, np.uint16)
    if values.ndim != 2 or 0 in values.shape:
        raise ValueError(f"a tensor is (tokens, elements), not {values.shape}")
    tokens, elements = values.shape
    tiles = -(-tokens // params.rows)
    padded = np.zeros((tiles * params.rows, -(-elements // unit) * unit), np.uint16)
    padded[:tokens, :elements] = values
    return padded.reshape(tiles, params.rows, -1)
