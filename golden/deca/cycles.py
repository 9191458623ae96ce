"""Cycles of the vector pipeline per tile, when data has arrived.

A vector operation gives one chunk of ``lanes`` elements. It occupies the dequantisation stage for
max(1, ceil(window / Lq)) cycles, where the window is the number of codes it consumes and Lq the
codes looked up per cycle (DECA paper, Section 6.2); every other stage takes one cycle and there is
no gap between tiles, so the sum over a tile's chunks is the tile's cost.
"""

from fractions import Fraction
from math import comb
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from tilewright.golden.params.deca import DecaParams, TileConfig


class TileCycles(NamedTuple):
    """Per tile; ``total`` is vector operations plus bubbles."""

    vector_operations: NDArray[np.int64]
    bubbles: NDArray[np.int64]

    @property
    def total(self) -> NDArray[np.int64]:
        return self.vector_operations + self.bubbles


def tile_cycles(params: DecaParams, config: TileConfig, mask: NDArray[np.bool_]) -> TileCycles:
    """Cycles of tiles with these masks, (tiles, elements); a dense tile's mask is all True."""
    chunks = mask.reshape(len(mask), params.chunks(config), params.lanes)
    window = np.count_nonzero(chunks, axis=-1)
    bubbles = np.maximum(-(-window // params.lookups(config.code_bits)) - 1, 0).sum(axis=-1)
    return TileCycles(np.full(len(mask), params.chunks(config)), bubbles)


def expected_cycles(params: DecaParams, config: TileConfig, density: float | Fraction) -> Fraction:
    """Mean cycles of a tile whose elements are nonzero independently with ``density``; exact.

    The paper's closed form: a chunk's window is binomial. A dense tile has density 1.
    """
    d = Fraction(density) if config.sparse else Fraction(1)
    if not 0 <= d <= 1:
        raise ValueError(f"density must be 0..1, not {density!r}")
    w, lq = params.lanes, params.lookups(config.code_bits)
    bubbles = sum(
        (-(-n // lq) - 1) * comb(w, n) * d**n * (1 - d) ** (w - n) for n in range(lq + 1, w + 1)
    )
    return params.chunks(config) * Fraction(1 + bubbles)
