"""Matrices in the schemes of DECA, decompressed in software.

``DecaMatrix`` reads DECA's own tiles and passes them through memory to the matrix unit: the
baseline of that paper's hardware. ``CodedMatrix`` has the same weights in another order
(``tilewright.golden.sparamx.coded``), the fastest known: up to batch 2 they never leave the vector
registers.
"""

from typing import Any

import numpy as np

from tilewright.golden.deca import CompressedMatrix
from tilewright.golden.deca.coding import data_lengths, mask_nonzeros
from tilewright.golden.deca.tiles import grid
from tilewright.golden.params.block import require
from tilewright.golden.params.deca import LUT_ENTRIES, ScaleKind
from tilewright.golden.params.sparamx import Order
from tilewright.golden.sparamx.coded import (
    MASK_BYTES,
    SCALE_BYTES,
    SCALES,
    CodedWeights,
    pack,
    scales_are_plain,
)
from tilewright.kernels.library import (
    CCodedWeights,
    CDecaWeights,
    Path,
    address,
    as_weight_bytes,
)
from tilewright.kernels.matrix import VECTOR_BATCH, Multiplier


class CodedMatrix(Multiplier):
    """Codes of up to 8 bits, dense or with a bitmap, without scales or with e8m0 ones of 32.

    Dense codes of 4 bits may have other scales, in vector order.

    Every path gives the bits of ``golden.sparamx.coded.multiply`` in the same order; in tile order
    these are the bits of ``golden.deca.gemm`` and of ``DecaMatrix``.
    """

    def __init__(self, weights: CodedWeights | CompressedMatrix, *, copy: bool = True):
        """Take coded or compressed weights, copied into aligned memory on large pages.

        Without a copy, coded weights stay where they are.
        """
        coded = weights if isinstance(weights, CodedWeights) else pack(weights)
        self.coded, self.shape = coded, coded.shape
        strips, along = coded.tiles
        self._stream = as_weight_bytes(coded.stream) if copy else coded.stream
        self._table = np.ascontiguousarray(coded.table, np.uint16)
        self._segments = np.ascontiguousarray(coded.segment_starts, np.int64)
        self.costs = np.ascontiguousarray(coded.tile_starts[::along], np.int64)
        plain = True
        if coded.scale == "e8m0":
            place = coded.tile_starts[:-1, np.newaxis] + (MASK_BYTES if coded.sparse else 0)
            plain = scales_are_plain(coded.table, coded.stream[place + np.arange(SCALE_BYTES)])
        weights_ = CCodedWeights(
            code_bits=coded.code_bits,
            sparse=coded.sparse,
            scale=[*SCALES].index(coded.scale),
            low_mask=coded.low_mask,
            plain_scales=plain,
            outputs=self.shape[0],
            inputs=self.shape[1],
            strips=strips,
            tiles=along,
            stream=address(self._stream),
            segment_starts=address(self._segments),
            table=address(self._table),
            tensor_scale=coded.tensor_scale,
        )
        super().__init__(coded=weights_)

    def __reduce__(self) -> tuple[Any, ...]:
        return type(self), (self.coded,)

    @property
    def size(self) -> int:
        return self.coded.size

    def default_order(self, batch: int, path: Path) -> Order:
        tiles = batch > VECTOR_BATCH and path is Path.AMX and self.coded.has_tile_order
        return Order.TILE if tiles else Order.VECTOR


class DecaMatrix(Multiplier):
    """A compressed matrix of bf16 tiles; the bits of ``golden.deca.gemm``, always in tile order.

    The AMX path takes any code book without scales, or with e8m0 scales of groups of 32 under
    which every nonzero table entry stays a normal number; other schemes take the portable one.
    """

    def __init__(self, compressed: CompressedMatrix, *, copy: bool = True):
        """Take a compressed matrix, checked, and copied into aligned memory on large pages.

        Without a copy, ``library.SLACK`` readable bytes must follow each of its three arrays.
        """
        config, tiles = compressed.scheme.config, compressed.tiles
        require(not config.int8, f"{compressed.scheme.name}: int8 tiles have no software kernel")
        strips, along = grid(config, compressed.shape)
        require(
            len(tiles) == strips * along,
            f"{len(tiles)} tiles are not those of a matrix of {compressed.shape}",
        )
        lengths = data_lengths(config, mask_nonzeros(config, tiles.masks))
        require(
            np.array_equal(lengths, tiles.data_lengths) and lengths.sum() == tiles.data.size,
            "the data's length disagrees with the bitmasks",
        )
        self.shape, self.compressed = compressed.shape, compressed
        self._lut = np.ascontiguousarray(compressed.scheme.lut_image(), np.uint16)
        assert self._lut.shape == (LUT_ENTRIES,)
        self._masks, self._scales, self._data = (
            as_weight_bytes(part) if copy else part
            for part in (tiles.masks, tiles.scales, tiles.data)
        )
        starts = np.concatenate([[0], np.cumsum(lengths)])[::along]
        self._starts = np.ascontiguousarray(starts, np.int64)
        steps = np.arange(strips + 1, dtype=np.int64)
        self.costs = self._starts + steps * along * (config.mask_bytes + config.scale_bytes)
        elements = self._data.view(np.uint16) if config.code_bits == 16 else self._lut
        weights = CDecaWeights(
            code_bits=config.code_bits,
            sparse=config.sparse,
            scale_kind=config.scale.code,
            group=config.group,
            plain_scales=config.scale is ScaleKind.E8M0
            and scales_are_plain(elements, self._scales),
            outputs=self.shape[0],
            inputs=self.shape[1],
            strips=strips,
            tiles=along,
            masks=address(self._masks),
            scales=address(self._scales),
            data=address(self._data),
            data_starts=address(self._starts),
            lut=address(self._lut),
        )
        super().__init__(deca=weights)

    def __reduce__(self) -> tuple[Any, ...]:
        return type(self), (self.compressed,)

    @property
    def size(self) -> int:
        return self.compressed.tiles.size

    def default_order(self, batch: int, path: Path) -> Order:
        return Order.TILE
