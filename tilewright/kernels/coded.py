"""Compressed weights decompressed in vector registers: the fastest known software.

``DecaMatrix`` reads DECA's own tiles and passes them through memory to the matrix unit, as the
software baseline of that paper. ``CodedMatrix`` has the same weights in another
order (``tilewright.golden.sparamx.coded``): up to batch 2 they never leave the registers.
"""

from typing import Any

import numpy as np
from numpy.typing import NDArray

from tilewright.golden.deca import CompressedMatrix
from tilewright.golden.params.sparamx import Order, WeightFormat
from tilewright.golden.sparamx.coded import (
    MASK_BYTES,
    SCALE_BYTES,
    CodedWeights,
    pack,
    scales_are_plain,
)
from tilewright.golden.sparamx.linear import check_activations
from tilewright.kernels.library import CCodedWeights, Path, address, as_weight_bytes
from tilewright.kernels.matrix import Multiplier

VECTOR_BATCH = 2  # up to here multiplying in registers is faster than filling tiles


class CodedMatrix(Multiplier):
    """Codes of up to 8 bits, dense or with a bitmap, without scales or with e8m0 ones of 32.

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
        if coded.scaled:
            place = coded.tile_starts[:-1, np.newaxis] + (MASK_BYTES if coded.sparse else 0)
            plain = scales_are_plain(coded, coded.stream[place + np.arange(SCALE_BYTES)])
        weights_ = CCodedWeights(
            code_bits=coded.code_bits,
            sparse=coded.sparse,
            scaled=coded.scaled,
            low_mask=coded.low_mask,
            plain_scales=plain,
            outputs=self.shape[0],
            inputs=self.shape[1],
            strips=strips,
            tiles=along,
            stream=address(self._stream),
            segment_starts=address(self._segments),
            table=address(self._table),
        )
        super().__init__(c_coded=weights_)

    def __reduce__(self) -> tuple[Any, ...]:
        return type(self), (self.coded,)

    @property
    def size(self) -> int:
        """Bytes that a multiplication reads of it."""
        return self.coded.size

    def check_activations(self, x: NDArray) -> None:
        check_activations(WeightFormat(sparse=False), self.shape, x)

    def default_order(self, batch: int, path: Path) -> Order:
        return Order.TILE if batch > VECTOR_BATCH and path is Path.AMX else Order.VECTOR
