"""A compressed matrix times activations, the way a core with DECA and AMX computes it.

Weight tiles are the first operand of the tile multiplication, activations the second. The tiles
of one row of tiles are accumulated from left to right, from +0; that order is part of the result.
"""

import numpy as np
from numpy.typing import NDArray

from tilewright.golden.amx import interleave, tdpbf16ps, tdpbssd
from tilewright.golden.deca.decompression import decompress_tiles
from tilewright.golden.deca.matrix import CompressedMatrix
from tilewright.golden.deca.tiles import grid, tile_columns
from tilewright.golden.params.deca import TILE_ROWS, TileConfig


def gemm(compressed: CompressedMatrix, activations: NDArray) -> NDArray:
    """(rows, batch) product of the matrix and ``activations`` (columns, batch); see below."""
    tiles = decompress_tiles(compressed.scheme.lut_image(), compressed.tiles)
    return gemm_of_tiles(compressed.scheme.config, compressed.shape, tiles, activations)


def gemm_of_tiles(
    config: TileConfig, shape: tuple[int, int], tiles: NDArray, activations: NDArray
) -> NDArray:
    """(rows, batch) product of decompressed tiles, (tiles, elements) bits, and activations.

    bf16 tiles take bf16 patterns and give fp32 patterns (TDPBF16PS). int8 tiles take int8 and
    give int32 (TDPBSSD), before any scale.
    """
    down, along = grid(config, shape)
    width = tile_columns(config)
    if activations.shape[:1] != shape[1:]:
        raise ValueError(f"activations {activations.shape} do not fit a matrix of {shape}")
    if tiles.shape != (down * along, config.elements):
        raise ValueError(f"tiles {tiles.shape} are not those of a matrix of {shape}")
    padded = np.pad(activations, [(0, along * width - shape[1]), (0, 0)])
    weights = tiles.reshape(down, along, TILE_ROWS, width)
    if config.int8:
        weights, padded = weights.view(np.int8), padded.astype(np.int8)
    sums = np.zeros((down, TILE_ROWS, activations.shape[1]), np.int32 if config.int8 else np.uint32)
    for k in range(along):
        part = padded[k * width : (k + 1) * width]
        if config.int8:
            sums = tdpbssd(sums, weights[:, k], interleave(part, 4))
        else:
            sums = tdpbf16ps(sums, weights[:, k], interleave(part, 2))
    return sums.reshape(down * TILE_ROWS, -1)[: shape[0]]
