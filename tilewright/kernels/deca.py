"""DECA's compressed tiles decompressed in software: the baseline of that paper's hardware."""

from typing import Any

import numpy as np
from numpy.typing import NDArray

from tilewright.golden.deca import CompressedMatrix
from tilewright.golden.deca.coding import data_lengths, mask_nonzeros
from tilewright.golden.deca.tiles import grid
from tilewright.golden.params.block import require
from tilewright.golden.params.deca import LUT_ENTRIES, ScaleKind
from tilewright.golden.params.formats import E8M0
from tilewright.golden.params.sparamx import Order
from tilewright.kernels.library import CDecaWeights, Path, address, as_weight_bytes
from tilewright.kernels.matrix import Multiplier


class DecaMatrix(Multiplier):
    """A compressed matrix of bf16 tiles; the bits of ``golden.deca.gemm``, always in tile order.

    The AMX path takes any code book without scales, or with e8m0 scales of groups of 32 under
    which every nonzero table entry stays a normal number; other schemes take the portable one.
    """

    def __init__(self, compressed: CompressedMatrix, *, copy: bool = True):
        """Take a compressed matrix, checked, and copied into aligned memory on large pages.

        Without a copy, ``memory.SLACK`` readable bytes must follow each of its three arrays.
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
        weights = CDecaWeights(
            code_bits=config.code_bits,
            sparse=config.sparse,
            scale_kind=config.scale.code,
            group=config.group,
            plain_scales=self._scales_are_plain(),
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
        super().__init__(None, weights)

    def __reduce__(self) -> tuple[Any, ...]:
        return type(self), (self.compressed,)

    @property
    def size(self) -> int:
        """Bytes that a multiplication reads of it."""
        return self.compressed.tiles.size

    def check_activations(self, x: NDArray) -> None:
        if x.ndim != 2 or x.shape[1] != self.shape[1] or not len(x):
            raise ValueError(
                f"activations {x.shape} do not fit a matrix of {self.shape[0]} outputs"
                f" and {self.shape[1]} inputs"
            )
        if x.dtype != np.uint16:
            raise ValueError(f"bf16 activations are uint16 here, not {x.dtype}")

    def default_order(self, batch: int, path: Path) -> Order:
        return Order.TILE

    def _scales_are_plain(self) -> bool:
        """Whether scaling is an addition to the exponent, for every entry and every scale."""
        config = self.compressed.scheme.config
        if config.scale is not ScaleKind.E8M0:
            return False
        elements = self._data.view(np.uint16) if config.code_bits == 16 else self._lut
        exponents = (elements >> 7 & 0xFF).astype(np.int64)
        normal = exponents[exponents > 0]  # subnormal entries count as zero
        if not self._scales.size or not normal.size:
            return True
        if self._scales.max() == E8M0.nan_bits:
            return False
        low, high = int(self._scales.min()) - 127, int(self._scales.max()) - 127
        return bool(normal.min() + low >= 1 and normal.max() + high <= 254)
