"""The packed form of a weight matrix: bitmap, nonzero values in processing order, strip starts.

The three arrays are the paper's ``weight_metadata``, ``weight_values`` and, one entry per strip
instead of one per thread, ``weight_value_index``: the entries of any number of threads follow from
those of the strips without touching the weights (:meth:`PackedWeights.partition`).
"""

from dataclasses import dataclass
from typing import Self

import numpy as np
from numpy.typing import NDArray

from tilewright.golden.params.block import require
from tilewright.golden.params.deca import TILE_ROWS
from tilewright.golden.params.sparamx import SEGMENT_TILES, STRIP_OUTPUTS, ElementType, WeightFormat

DTYPES: dict[ElementType, np.dtype] = {
    ElementType.BF16: np.dtype(np.uint16),
    ElementType.INT8: np.dtype(np.int8),
}


@dataclass(frozen=True)
class PackedWeights:
    """A packed (outputs, inputs) matrix. bf16 values are bit patterns."""

    format: WeightFormat
    shape: tuple[int, int]
    metadata: NDArray[np.uint8]  # (strips, tiles, metadata_bytes), bit i of a row is element i
    values: NDArray  # (nonzeros,), or every element where the format is dense
    strip_starts: NDArray[np.int64]  # (strips + 1,) index of each strip's first value

    @property
    def size(self) -> int:
        """Bytes that a multiplication reads of it."""
        return self.metadata.nbytes + self.values.nbytes

    @property
    def costs(self) -> NDArray[np.int64]:
        """(strips + 1,) bytes to read before each strip: what threads are balanced by."""
        per_strip = self.metadata[0].nbytes if len(self.metadata) else 0
        steps = np.arange(len(self.strip_starts), dtype=np.int64)
        return self.strip_starts * self.format.element.bytes + steps * per_strip

    def partition(self, threads: int) -> NDArray[np.int64]:
        """(threads + 1,) first strip of each thread, such that all read about as many bytes."""
        return balance(self.costs, threads)

    def check(self) -> Self:
        """Refuse arrays that contradict each other or the shape; kernels trust them."""
        strips, tiles = self.format.grid(self.shape)
        wanted = (strips, tiles, self.format.metadata_bytes)
        require(
            self.metadata.shape == wanted,
            f"bitmap of shape {self.metadata.shape} for a matrix whose bitmap has {wanted}",
        )
        dtype = DTYPES[self.format.element]
        require(self.values.dtype == dtype, f"values are {self.values.dtype}, not {dtype}")
        starts = strip_starts(self.format, self.metadata)
        require(np.array_equal(self.strip_starts, starts), "strip starts disagree with the bitmap")
        require(
            len(self.values) == starts[-1],
            f"{len(self.values)} values for a bitmap of {starts[-1]}",
        )
        return self


def balance(costs: NDArray[np.int64], threads: int) -> NDArray[np.int64]:
    """(threads + 1,) boundaries among strips with these cumulative costs.

    Thread t begins at the first strip before which at least t / threads of all bytes lie. A few
    comparisons per thread: a new number of threads needs no new packing.
    """
    require(threads >= 1, f"threads must be at least 1, not {threads!r}")
    wanted = costs[-1] * np.arange(threads + 1, dtype=np.int64)
    bounds = np.searchsorted(costs * threads, wanted)
    bounds[-1] = len(costs) - 1
    return np.maximum.accumulate(bounds).astype(np.int64)


def strip_starts(fmt: WeightFormat, metadata: NDArray[np.uint8]) -> NDArray[np.int64]:
    starts = segment_starts(fmt, metadata)
    return starts[:: (len(starts) - 1) // len(metadata)]


def segment_starts(fmt: WeightFormat, metadata: NDArray[np.uint8]) -> NDArray[np.int64]:
    """(strips * segments + 1,) index of each segment's first value (``Order.VECTOR``)."""
    strips, tiles = metadata.shape[:2]
    if fmt.sparse:
        counts = np.bitwise_count(metadata).sum(axis=2, dtype=np.int64)
    else:
        counts = np.full((strips, tiles), fmt.tile_elements, np.int64)
    counts = np.add.reduceat(counts, np.arange(0, tiles, SEGMENT_TILES), axis=1)
    return np.concatenate([[0], np.cumsum(counts)]).astype(np.int64)


def to_tiles(fmt: WeightFormat, matrix: NDArray) -> NDArray:
    """(outputs, inputs) -> (strips, tiles, 16 rows, row elements), padded with zeros."""
    strips, tiles = fmt.grid((matrix.shape[0], matrix.shape[1]))
    padding = (strips * STRIP_OUTPUTS - matrix.shape[0], tiles * fmt.tile_depth - matrix.shape[1])
    padded = np.pad(matrix, [(0, p) for p in padding])
    blocks = padded.reshape(strips, STRIP_OUTPUTS, tiles, TILE_ROWS, fmt.depths_per_row)
    return blocks.transpose(0, 2, 3, 1, 4).reshape(strips, tiles, TILE_ROWS, fmt.row_elements)


def from_tiles(fmt: WeightFormat, shape: tuple[int, int], tiles: NDArray) -> NDArray:
    """Undo :func:`to_tiles`."""
    strips, along = fmt.grid(shape)
    blocks = tiles.reshape(strips, along, TILE_ROWS, STRIP_OUTPUTS, fmt.depths_per_row)
    matrix = blocks.transpose(0, 3, 1, 2, 4)
    return matrix.reshape(strips * STRIP_OUTPUTS, -1)[: shape[0], : shape[1]]


def check_weights(fmt: WeightFormat, weights: NDArray) -> None:
    """Refuse what is no matrix of finite weights of the format's element."""
    require(weights.ndim == 2, f"a weight matrix has 2 dimensions, not shape {weights.shape}")
    require(weights.size > 0, f"a weight matrix of shape {weights.shape} has no weights")
    dtype = DTYPES[fmt.element]
    require(
        weights.dtype == dtype, f"{fmt.element.value} weights are {dtype} here, not {weights.dtype}"
    )
    if fmt.element is ElementType.BF16:
        bad = np.argwhere((weights & 0x7F80) == 0x7F80)
        if len(bad):
            row, column = (int(k) for k in bad[0])
            raise ValueError(
                f"weight {int(weights[row, column]):#06x} at row {row}, column {column}"
                " is NaN or infinite"
            )


def nonzero(fmt: WeightFormat, elements: NDArray) -> NDArray[np.bool_]:
    """Where a value is stored; a negative zero is none."""
    return (elements & 0x7FFF) != 0 if fmt.element is ElementType.BF16 else elements != 0


def pack(fmt: WeightFormat, weights: NDArray) -> PackedWeights:
    """A (outputs, inputs) matrix of bf16 patterns (uint16) or int8, packed."""
    weights = np.asarray(weights)
    check_weights(fmt, weights)
    tiles = to_tiles(fmt, weights)
    if fmt.sparse:
        mask = nonzero(fmt, tiles)
        metadata = np.packbits(mask.reshape(*tiles.shape[:2], -1), axis=-1, bitorder="little")
        values = tiles[mask]
    else:
        metadata = np.zeros((*tiles.shape[:2], 0), np.uint8)
        values = tiles.reshape(-1)
    shape = (weights.shape[0], weights.shape[1])
    return PackedWeights(fmt, shape, metadata, values, strip_starts(fmt, metadata))


def unpack(packed: PackedWeights) -> NDArray:
    """The matrix again, bit for bit; negative zeros of a sparse one have become +0."""
    fmt = packed.format
    strips, tiles = fmt.grid(packed.shape)
    shape = (strips, tiles, TILE_ROWS, fmt.row_elements)
    if not fmt.sparse:
        return from_tiles(fmt, packed.shape, packed.values.reshape(shape))
    dense = np.zeros(shape, packed.values.dtype)
    mask = np.unpackbits(packed.metadata, axis=-1, bitorder="little").view(np.bool_)
    dense[mask.reshape(shape)] = packed.values
    return from_tiles(fmt, packed.shape, dense)
