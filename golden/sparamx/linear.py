"""The kernels of a linear layer, instruction by instruction: (batch, inputs) @ weights.

``Order.TILE`` is the paper's AMX kernel: a tile of weights is expanded row by row, stored, loaded
as a tile and multiplied. ``Order.VECTOR`` is its AVX kernel for batch 1: an expanded row is
multiplied where it is. Both take dense weights too, which need no expansion.
"""

from collections import Counter
from functools import reduce
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from tilewright.golden.arith import add
from tilewright.golden.params.arith import AMX_RULES
from tilewright.golden.params.deca import TILE_ROWS
from tilewright.golden.params.formats import FP32
from tilewright.golden.params.sparamx import (
    SEGMENT_TILES,
    STRIP_OUTPUTS,
    VECTOR_CHAINS,
    ElementType,
    Order,
    WeightFormat,
)
from tilewright.golden.sparamx.core import Core, prefix_sum
from tilewright.golden.sparamx.packed import DTYPES, PackedWeights, pack

SIGN_SHIFT = 128  # int8 activations are moved by this to the uint8 that VPDPBUSD wants


def multiply(
    packed: PackedWeights, activations: NDArray, order: Order, core: Core | None = None
) -> NDArray:
    """(batch, outputs) product: fp32 patterns of bf16 weights, int32 of int8 ones.

    ``activations`` are (batch, inputs), bf16 patterns (uint16) or int8. ``core`` collects the
    instructions of one strip, without those that end it.
    """
    fmt = packed.format
    check_activations(packed.format, packed.shape, activations)
    core = core or Core()
    tiles = fmt.grid(packed.shape)[1]
    padded = np.pad(activations, [(0, 0), (0, tiles * fmt.tile_depth - packed.shape[1])])
    kernel = _by_tiles if order is Order.TILE else _by_vectors
    sums = kernel(core, packed, padded.reshape(len(activations), tiles, -1))
    return sums.swapaxes(0, 1).reshape(len(activations), -1)[:, : packed.shape[0]]


def check_activations(fmt: WeightFormat, shape: tuple[int, int], activations: NDArray) -> None:
    """Refuse activations that do not fit a matrix of ``shape``."""
    if activations.ndim != 2 or activations.shape[1] != shape[1] or not len(activations):
        raise ValueError(
            f"activations {activations.shape} do not fit a matrix of {shape[0]} outputs"
            f" and {shape[1]} inputs"
        )
    dtype = DTYPES[fmt.element]
    if activations.dtype != dtype:
        raise ValueError(
            f"{fmt.element.value} activations are {dtype} here, not {activations.dtype}"
        )


def tile_instructions(fmt: WeightFormat, order: Order, batch: int = 1) -> Counter[str]:
    """Vector and tile instructions that one tile of weights costs, by name."""
    packed = pack(fmt, np.ones((STRIP_OUTPUTS, fmt.tile_depth), DTYPES[fmt.element]))
    core = Core()
    multiply(packed, np.ones((batch, fmt.tile_depth), DTYPES[fmt.element]), order, core)
    return core.counts


class TileRows(NamedTuple):
    """One tile of every strip: mask of each row (None: dense) and where its values begin."""

    masks: NDArray | None  # (strips, 16)
    starts: NDArray  # (strips, 16)


def tile_rows(packed: PackedWeights) -> list[TileRows]:
    """Every tile of a strip, as POPCNT and additions on the scalar side find its rows."""
    fmt = packed.format
    strips, tiles = fmt.grid(packed.shape)
    if not fmt.sparse:
        row = np.arange(tiles * TILE_ROWS).reshape(tiles, TILE_ROWS) * fmt.row_elements
        starts = packed.strip_starts[:-1, np.newaxis, np.newaxis] + row
        return [TileRows(None, starts[:, k]) for k in range(tiles)]
    masks = row_masks(packed)
    counts = np.bitwise_count(masks).reshape(strips, -1).astype(np.int64)
    before = np.cumsum(counts, axis=1) - counts + packed.strip_starts[:-1, np.newaxis]
    before = before.reshape(masks.shape)
    return [TileRows(masks[:, k], before[:, k]) for k in range(tiles)]


def row_masks(packed: PackedWeights) -> NDArray:
    """(strips, tiles, 16) bitmap rows as words of 32 or 64 bits."""
    word = "<u4" if packed.format.element is ElementType.BF16 else "<u8"
    return np.ascontiguousarray(packed.metadata).view(word)


def vector_row_starts(core: Core, masks: NDArray, tile_start: NDArray) -> NDArray:
    """The same row starts by the paper's way: VPOPCNT, a prefix sum, and a store to index by.

    ``masks`` are one tile's (..., 16). int8 rows have 64-bit masks, eight to a register.
    """
    lanes = 64 // masks.dtype.itemsize
    offsets = []
    for first in range(0, TILE_ROWS, lanes):
        words = core.store(core.load(masks[..., first : first + lanes]))
        counts = core.vpopcnt(words)
        offsets.append((core.store(prefix_sum(core, counts)), counts))
    inclusive, base = [], np.zeros((*masks.shape[:-1], 1), np.int64)
    for sums, counts in offsets:
        inclusive.append(base + sums.astype(np.int64) - counts.astype(np.int64))
        base = base + sums[..., -1:].astype(np.int64)
    return tile_start[..., np.newaxis] + np.concatenate(inclusive, axis=-1)


def _row(core: Core, packed: PackedWeights, rows: TileRows, r: int) -> NDArray:
    """Row r of a tile in every strip, (strips, row elements), dense."""
    starts = rows.starts[:, r]
    if rows.masks is None:
        window = starts[:, np.newaxis] + np.arange(packed.format.row_elements)
        return core.load(packed.values[window])
    expand = core.vpexpandw if packed.format.element is ElementType.BF16 else core.vpexpandb
    return expand(rows.masks[:, r], packed.values, starts)


def _by_tiles(core: Core, packed: PackedWeights, activations: NDArray) -> NDArray:
    fmt = packed.format
    strips = len(packed.strip_starts) - 1
    batch, depth = len(activations), fmt.tile_depth
    floats = fmt.element is ElementType.BF16
    sums = np.zeros((strips, batch, STRIP_OUTPUTS), np.uint32 if floats else np.int32)
    for k, rows in enumerate(tile_rows(packed)):
        if fmt.sparse:
            lines = [core.store(_row(core, packed, rows, r)) for r in range(TILE_ROWS)]
            weights = core.tileloadd(np.stack(lines, axis=1))
        else:
            window = rows.starts[:, :1] + np.arange(fmt.tile_elements)
            tile = packed.values[window].reshape(strips, TILE_ROWS, fmt.row_elements)
            weights = core.tileloadd(tile)
        for top in range(0, batch, TILE_ROWS):
            part = slice(top, top + TILE_ROWS)
            left = core.tileloadd(activations[part, k, :depth])
            step = core.tdpbf16ps if floats else core.tdpbssd
            sums[:, part] = step(sums[:, part], left, weights)
    return sums


def _by_vectors(core: Core, packed: PackedWeights, activations: NDArray) -> NDArray:
    fmt = packed.format
    strips, batch = len(packed.strip_starts) - 1, len(activations)
    floats = fmt.element is ElementType.BF16
    group = fmt.depths_per_row
    shape = (strips, batch, STRIP_OUTPUTS)
    if not floats:
        activations = (activations.astype(np.int16) + SIGN_SHIFT).astype(np.uint8)
    step = core.vdpbf16ps if floats else core.vpdpbusd
    weight_sums = np.zeros((strips, STRIP_OUTPUTS), np.int64)
    segments = []
    for k, rows in enumerate(tile_rows(packed)):
        if k % SEGMENT_TILES == 0:
            chains = np.zeros((VECTOR_CHAINS, *shape), np.uint32 if floats else np.int32)
            segments.append(chains)
        for r in range(TILE_ROWS):
            weights = _row(core, packed, rows, r)
            pair = activations[:, k, group * r : group * (r + 1)]
            left = np.tile(pair, (1, STRIP_OUTPUTS))  # one 32-bit word in every lane
            chain = r % VECTOR_CHAINS
            right = weights[:, np.newaxis]
            chains[chain] = step(chains[chain], left, right, registers=batch)
            if not floats:
                lanes = weights.reshape(strips, STRIP_OUTPUTS, group)
                weight_sums += lanes.sum(axis=-1, dtype=np.int64)
    if floats:
        return reduce(_plus, (_plus(_plus(c[0], c[1]), _plus(c[2], c[3])) for c in segments))
    # The shift of the activations is taken back by each output's sum of weights, kept with them.
    total = np.sum(segments, axis=(0, 1), dtype=np.int64)
    return (total - SIGN_SHIFT * weight_sums[:, np.newaxis]).astype(np.int32)


def _plus(a: NDArray, b: NDArray) -> NDArray:
    return add(FP32, FP32, FP32, a, b, AMX_RULES)
