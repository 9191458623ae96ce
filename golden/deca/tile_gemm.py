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
from tilewright.golden.parallel import for_each_piece
from tilewright.golden.params.block import require
from tilewright.golden.params.deca import TILE_ROWS, TileConfig
from tilewright.golden.params.formats import BF16, FP32


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


# Fast products.

_PIECE = 1 << 15  # sums of a piece: they and a temporary stay in a core's cache
_TINIEST = float(2.0**FP32.min_exponent)
_HUGE = float(2.0**127)


class TileProduct:
    """A matrix of bf16 tiles in the order in which TDPBF16PS reads it, and its products.

    They are the same in float32: the product of two bf16 values has 16 significant bits, so it is
    exact in float32, and adding it in float32 rounds once, as the fused operation does. float32
    differs from AMX in subnormal numbers, which AMX flushes, and in overflow between product and
    sum. Neither can happen if all operands are near enough to 1, as those of language models are;
    others take the slow path.
    """

    def __init__(self, config: TileConfig, shape: tuple[int, int], tiles: NDArray[np.uint16]):
        """``tiles`` are (tiles, elements) patterns of a matrix of ``shape``."""
        require(not config.int8, "int8 tiles are multiplied by golden.deca.gemm_of_tiles")
        self.config, self.shape = config, shape
        down, along = grid(config, shape)
        width = tile_columns(config)
        if tiles.shape != (down * along, config.elements):
            raise ValueError(f"tiles {tiles.shape} are not those of a matrix of {shape}")
        # (tiles along, pairs, even or odd, rows): each step of a tile's sums is one run of rows.
        cut = tiles.reshape(down, along, TILE_ROWS, width // 2, 2).transpose(1, 3, 4, 0, 2)
        self._weights = _floats(np.ascontiguousarray(cut)).reshape(along, width // 2, 2, -1)
        self._least, self._most = _extremes(self._weights)

    @property
    def tiles(self) -> int:
        down, along = grid(self.config, self.shape)
        return down * along

    def __call__(self, activations: NDArray[np.uint16]) -> NDArray[np.uint32]:
        """fp32 patterns (rows, batch), as ``gemm_of_tiles``; activations (columns, batch) bf16."""
        if activations.shape[:1] != self.shape[1:]:
            raise ValueError(f"activations {activations.shape} do not fit a matrix of {self.shape}")
        along, pairs, _, rows = self._weights.shape
        values = np.zeros((along * pairs * 2, activations.shape[1]), np.float32)
        values[: len(activations)] = _floats(activations)
        if not self._safe(*_extremes(values)):
            return gemm_of_tiles(self.config, self.shape, self._patterns(), activations)
        taken = np.ascontiguousarray(values.reshape(along, pairs, 2, -1).transpose(0, 1, 3, 2))
        batch = taken.shape[2]
        total = np.zeros((batch, rows), np.float32)

        # Every tile's sums start at zero, so several tiles of a short matrix are computed together.
        step = max(64, _PIECE // (2 * batch))
        together = max(1, step // rows)

        def work(piece: slice) -> None:
            sums = total[:, piece]
            for first in range(0, along, together):
                weights = self._weights[first : first + together, :, np.newaxis, :, piece]
                factors = taken[first : first + together, ..., np.newaxis]
                part = weights[:, 0] * factors[:, 0] + np.float32(0)  # -0 becomes +0
                term = np.empty_like(part)
                for k in range(1, pairs):
                    np.multiply(weights[:, k], factors[:, k], out=term)
                    np.add(part, term, out=part)
                for both in part[:, :, 0] + part[:, :, 1]:
                    sums += both

        for_each_piece(work, rows, step)
        return np.ascontiguousarray(total.T[: self.shape[0]]).view(np.uint32)

    def _safe(self, least: float, most: float) -> bool:
        """Whether no sum can be subnormal or overflow.

        Every value is a multiple of its last place, so all sums, rounded or not, are multiples of
        the product of the two smallest last places, and no larger than all products together.
        """
        unit = self._least * least * 2.0 ** (-2 * BF16.mantissa_bits)
        # The smallest magnitudes are at least powers of two, of which halves are a safe bound.
        return unit / 4 >= _TINIEST and 2 * self._most * most * self.shape[1] < _HUGE

    def _patterns(self) -> NDArray[np.uint16]:
        """The tiles as given, but with zeros for subnormal elements."""
        along, pairs, _, rows = self._weights.shape
        bits = (self._weights.view(np.uint32) >> 16).astype(np.uint16)
        cut = bits.reshape(along, pairs, 2, rows // TILE_ROWS, TILE_ROWS).transpose(3, 0, 4, 1, 2)
        return cut.reshape(-1, self.config.elements)


def _floats(patterns: NDArray[np.uint16]) -> NDArray[np.float32]:
    """bf16 patterns as float32; subnormals as zeros of their sign."""
    bits = patterns.astype(np.uint32) << 16
    bits[(bits & 0x7F800000) == 0] &= np.uint32(0x80000000)
    return bits.view(np.float32)


def _extremes(values: NDArray[np.float32]) -> tuple[float, float]:
    """The smallest magnitude that is not zero and the largest one, 1 where all are zero."""
    magnitude = np.abs(values)
    most = float(magnitude.max(initial=0))  # NaN stays
    least = float(magnitude.min(initial=np.inf, where=magnitude > 0))
    return (1.0, 1.0) if most == 0 else (least, most)
