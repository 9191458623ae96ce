"""A weight matrix cut into tiles, and the three parts of a tile: mask, codes, scales.

A weight matrix is (rows, columns) = (output features, input features), as a linear layer stores
it. A tile is 16 rows by 32 columns (64 for int8 tiles), its elements row by row, as AMX loads the
*first* operand of a tile multiplication; groups of up to 32 consecutive elements run along the
input features, as in the MX formats.
Tiles follow each other along the columns, then down the rows. A ragged matrix is padded with 0.
"""

from collections.abc import Callable, Iterator
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from tilewright.golden.params.deca import TILE_ROWS, TileConfig

PIECE_ELEMENTS = 1 << 17  # worked on at once: temporaries of a piece stay near the caches

ReadRows = Callable[[int, int], NDArray]  # rows [start, stop) of a matrix


class Tiles(NamedTuple):
    """The content of some tiles, dense: position in the tile along the last axis."""

    mask: NDArray[np.bool_]  # (tiles, elements); all True where the scheme is not sparse
    codes: NDArray  # (tiles, elements); 0 where the mask is False
    scales: NDArray  # (tiles, groups) patterns; (tiles, 0) without scales


def tile_columns(config: TileConfig) -> int:
    """Columns of the matrix that one tile spans."""
    return config.elements // TILE_ROWS


def grid(config: TileConfig, shape: tuple[int, int]) -> tuple[int, int]:
    """Tiles down the rows and along the columns of a matrix of ``shape``."""
    return -(-shape[0] // TILE_ROWS), -(-shape[1] // tile_columns(config))


def to_tiles(config: TileConfig, matrix: NDArray) -> NDArray:
    """(rows, columns) -> (tiles, elements), padded with 0."""
    down, along = grid(config, matrix.shape)
    width = tile_columns(config)
    padding = (down * TILE_ROWS - matrix.shape[0], along * width - matrix.shape[1])
    if any(padding):
        matrix = np.pad(matrix, [(0, p) for p in padding])
    blocks = matrix.reshape(down, TILE_ROWS, along, width).swapaxes(1, 2)
    return blocks.reshape(down * along, config.elements)


def from_tiles(config: TileConfig, shape: tuple[int, int], tiles: NDArray) -> NDArray:
    """Undo :func:`to_tiles`: (tiles, elements) -> a matrix of ``shape``."""
    down, along = grid(config, shape)
    width = tile_columns(config)
    blocks = tiles.reshape(down, along, TILE_ROWS, width).swapaxes(1, 2)
    return blocks.reshape(down * TILE_ROWS, along * width)[: shape[0], : shape[1]]


class Band(NamedTuple):
    """Rows of a matrix that are whole rows of tiles, except at its lower end."""

    top: int
    values: NDArray


def band_rows(config: TileConfig, shape: tuple[int, int]) -> int:
    """Rows of a band of about ``PIECE_ELEMENTS``, whole rows of tiles."""
    columns = grid(config, shape)[1] * tile_columns(config)
    return TILE_ROWS * max(1, PIECE_ELEMENTS // (TILE_ROWS * columns))


def bands(config: TileConfig, shape: tuple[int, int], read_rows: ReadRows) -> Iterator[Band]:
    """The matrix from the top down."""
    step = band_rows(config, shape)
    for top in range(0, shape[0], step):
        yield Band(top, read_rows(top, min(top + step, shape[0])))


def columns_of(config: TileConfig, band: NDArray) -> Iterator[slice]:
    """Column ranges that cut a band into pieces of about ``PIECE_ELEMENTS``, whole tiles each."""
    width = tile_columns(config)
    step = width * max(1, PIECE_ELEMENTS // (len(band) * width))
    return (slice(left, left + step) for left in range(0, band.shape[1], step))
