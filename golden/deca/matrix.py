"""A weight matrix compressed, and back: pruning, quantisation and packing in one place.

Everything runs band by band in tile order, so matrices may be larger than memory.
"""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Self

import numpy as np
from numpy.typing import ArrayLike, NDArray

from tilewright.golden.deca.coding import CompressedTiles, encode_tiles
from tilewright.golden.deca.decompression import decompress_tiles
from tilewright.golden.deca.own import OwnScheme
from tilewright.golden.deca.quantise import Pruner, quantise, row_scales
from tilewright.golden.deca.scheme import Scheme
from tilewright.golden.deca.tiles import Band, ReadRows, bands, columns_of, from_tiles, to_tiles
from tilewright.golden.params.block import require


@dataclass(frozen=True)
class CompressedMatrix:
    """The tiles of a (rows, columns) matrix; ``row_scales`` only where tiles are int8."""

    scheme: Scheme
    shape: tuple[int, int]
    tiles: CompressedTiles
    row_scales: NDArray[np.float32] | None = None

    @property
    def size(self) -> int:
        """Bytes of everything a core reads to multiply with it."""
        return self.tiles.size + (0 if self.row_scales is None else self.row_scales.nbytes)

    @classmethod
    def join(cls, bands: Iterable[Self], shape: tuple[int, int]) -> Self:
        """The matrix of ``shape`` whose parts from the top down are ``bands``."""
        parts = list(bands)
        scales = [part.row_scales for part in parts if part.row_scales is not None]
        tiles = CompressedTiles.join([part.tiles for part in parts])
        return cls(parts[0].scheme, shape, tiles, np.concatenate(scales) if scales else None)


class NonFiniteWeightError(ValueError):
    """A weight that is NaN, infinite, or too large for float32."""

    def __init__(self, value: float, row: int, column: int):
        super().__init__(f"weight {value} at row {row}, column {column} is no finite float32")
        self.value, self.row, self.column = value, row, column


def effective_scheme(scheme: Scheme, density: float | None) -> Scheme:
    """``scheme`` as :func:`compress` uses it: with bitmasks where a density is asked for."""
    if density is None:
        return scheme
    require(0 <= density <= 1, f"density must be 0..1, not {density!r}")
    return scheme.sparsified


def compress_bands(
    scheme: Scheme, shape: tuple[int, int], read_rows: ReadRows, density: float | None = None
) -> Iterator[CompressedMatrix]:
    """The matrix whose rows ``read_rows(start, stop)`` gives, as matrices one below the other.

    Weights count as float32. With a ``density`` the round(density * rows * columns) largest
    magnitudes stay, ties in tile order; a sparse scheme without one drops the zeros only. NaN and
    infinity are refused with their position.
    """
    scheme = effective_scheme(scheme, density)

    def float32_bands() -> Iterator[Band]:
        return map(_as_float32, bands(scheme.config, shape, read_rows))

    pruner = None
    if density is not None:
        keep = round(density * shape[0] * shape[1])
        pruner = Pruner.exact(lambda: (band.values for band in float32_bands()), keep)
    for band in float32_bands():
        yield _compress_band(scheme, band.values, pruner)


def _compress_band(
    scheme: Scheme, weights: NDArray[np.float32], pruner: Pruner | None
) -> CompressedMatrix:
    config = scheme.config
    if isinstance(scheme, OwnScheme):  # whole rows: groups may be longer than a piece's
        tiles = to_tiles(config, weights)
        mask = _mask(scheme, tiles, pruner)
        found = encode_tiles(config, scheme.quantise(tiles, mask, weights.shape))
        return CompressedMatrix(scheme, weights.shape, found)
    scales = row_scales(scheme, np.abs(weights).max(axis=1)) if config.int8 else None
    parts = []
    for columns in columns_of(config, weights):
        part = weights[:, columns]
        tiles = to_tiles(config, part)
        mask = _mask(scheme, tiles, pruner)
        if scales is not None:
            tiles = to_tiles(config, part / scales[:, np.newaxis])
        parts.append(encode_tiles(config, quantise(scheme, tiles, mask)))
    shape = (weights.shape[0], weights.shape[1])
    return CompressedMatrix(scheme, shape, CompressedTiles.join(parts), scales)


def _mask(scheme: Scheme, tiles: NDArray[np.float32], pruner: Pruner | None) -> NDArray[np.bool_]:
    """Return which weights are stored."""
    if pruner is not None:
        return pruner.mask(tiles)
    return tiles != 0 if scheme.config.sparse else np.ones(tiles.shape, np.bool_)


def compress(matrix: ArrayLike, scheme: Scheme, density: float | None = None) -> CompressedMatrix:
    """A (rows, columns) array of weights, compressed; see :func:`compress_bands`."""
    array = np.asarray(matrix)
    require(array.ndim == 2, f"a weight matrix has 2 dimensions, not shape {array.shape}")
    require(array.size > 0, f"a weight matrix of shape {array.shape} has no weights")
    shape = (array.shape[0], array.shape[1])
    bands = compress_bands(scheme, shape, lambda start, stop: array[start:stop], density)
    return CompressedMatrix.join(bands, shape)


def restore(compressed: CompressedMatrix) -> NDArray[np.float32]:
    """The weights that a multiplication with the compressed matrix uses, exactly."""
    config = compressed.scheme.config
    bits = decompress_tiles(compressed.scheme.lut_image(), compressed.tiles)
    if config.int8:
        numbers = bits.view(np.int8).astype(np.float32)
    else:  # a bf16 is the upper half of a float32
        numbers = (bits.astype(np.uint32) << 16).view(np.float32)
    values = from_tiles(config, compressed.shape, numbers)
    if compressed.row_scales is not None:
        values = values * compressed.row_scales[:, np.newaxis]
    return values


def _as_float32(band: Band) -> Band:
    with np.errstate(over="ignore"):  # what overflows is refused below
        values = np.asarray(band.values).astype(np.float32, copy=False)
    if not np.isfinite(values).all():
        row, column = (int(k) for k in np.argwhere(~np.isfinite(values))[0])
        raise NonFiniteWeightError(band.values[row, column].item(), band.top + row, column)
    return band._replace(values=values)
