"""Codes and bitmasks as bytes, for many tiles at once, and their places in memory.

A tile's codes of q bits follow each other without gaps, code 0 in the lowest bits of the first
byte; a tile starts on a byte. Bit i of a mask's byte j is element 8j + i. Scales are bytes, or
two bytes each with the low one first.
"""

from dataclasses import dataclass
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from tilewright.golden.deca.tiles import Tiles
from tilewright.golden.params.block import require
from tilewright.golden.params.deca import ROW_BYTES, ScaleKind, TileConfig
from tilewright.golden.payload import Columns

Bytes = NDArray[np.uint8]


@dataclass(frozen=True)
class CompressedTiles:
    """Some tiles as the bytes of their three structures; ``data`` of all tiles back to back."""

    config: TileConfig
    masks: Bytes  # (tiles, mask_bytes)
    scales: Bytes  # (tiles, scale_bytes)
    data: Bytes
    data_lengths: NDArray[np.int64]  # (tiles,) bytes of data of each tile

    def __len__(self) -> int:
        return len(self.data_lengths)

    @property
    def size(self) -> int:
        """Bytes in memory of all three structures."""
        return self.masks.size + self.scales.size + self.data.size

    def first(self, count: int) -> "CompressedTiles":
        """The first ``count`` tiles, or all where there are fewer."""
        lengths = self.data_lengths[:count]
        data = self.data[: int(lengths.sum())]
        return CompressedTiles(self.config, self.masks[:count], self.scales[:count], data, lengths)

    @classmethod
    def join(cls, parts: list[Self]) -> "CompressedTiles":
        """The tiles of ``parts`` in order; all of one configuration."""
        return cls(
            parts[0].config,
            *(
                np.concatenate([getattr(part, name) for part in parts])
                for name in ("masks", "scales", "data", "data_lengths")
            ),
        )


def encode_tiles(config: TileConfig, tiles: Tiles) -> CompressedTiles:
    """Encode tiles as bytes."""
    count = len(tiles.mask)
    nonzeros = np.count_nonzero(tiles.mask, axis=1)
    if config.sparse:
        masks = np.packbits(tiles.mask, axis=1, bitorder="little")
        codes = tiles.codes[tiles.mask]
    else:
        masks = np.zeros((count, 0), np.uint8)
        codes = tiles.codes.reshape(-1)
    scale_dtype = "<u2" if config.scale is ScaleKind.BF16 else "u1"
    scales = np.ascontiguousarray(tiles.scales, scale_dtype).view(np.uint8)
    lengths = data_lengths(config, nonzeros)
    return CompressedTiles(
        config,
        masks,
        scales.reshape(count, config.scale_bytes),
        _pack_codes(config.code_bits, codes, nonzeros, lengths),
        lengths,
    )


def decode_tiles(compressed: CompressedTiles) -> Tiles:
    """Undo :func:`encode_tiles`."""
    config, count = compressed.config, len(compressed)
    if config.sparse:
        bits = np.unpackbits(compressed.masks, axis=1, bitorder="little")
        mask = bits.view(np.bool_)
    else:
        mask = np.ones((count, config.elements), np.bool_)
    nonzeros = np.count_nonzero(mask, axis=1)
    packed = _unpack_codes(config.code_bits, compressed.data, nonzeros, compressed.data_lengths)
    codes = np.zeros(mask.shape, packed.dtype)
    codes[mask] = packed
    scale_dtype = "<u2" if config.scale is ScaleKind.BF16 else "u1"
    scales = np.ascontiguousarray(compressed.scales).view(scale_dtype)
    return Tiles(mask, codes, scales)


def data_lengths(config: TileConfig, nonzeros: NDArray) -> NDArray[np.int64]:
    """Bytes of each tile's packed codes."""
    return -(-nonzeros.astype(np.int64) * config.code_bits // 8)


def mask_nonzeros(config: TileConfig, masks: Bytes) -> NDArray[np.int64]:
    """Nonzeros of each tile from its mask bytes, or all its elements where tiles are dense."""
    if not config.sparse:
        return np.full(len(masks), config.elements, np.int64)
    return np.bitwise_count(masks).sum(axis=1, dtype=np.int64)


def runs(inside: NDArray, outside: NDArray) -> NDArray[np.bool_]:
    """inside[0] times True, outside[0] times False, inside[1] times True, and so on."""
    lengths = np.stack([inside, outside], axis=1).reshape(-1)
    return np.repeat(np.tile([True, False], len(inside)), lengths)


def _pack_codes(q: int, codes: NDArray, counts: NDArray, lengths: NDArray) -> Bytes:
    """Codes of all tiles, ``counts`` of them each, as bytes, ``lengths`` of them each."""
    if q == 16:
        return codes.astype("<u2").view(np.uint8)
    words = -(-counts // 8)  # eight codes are q whole bytes
    padded = np.zeros(8 * int(words.sum()), np.uint8)
    padded[runs(counts, 8 * words - counts)] = codes
    eights = padded.reshape(-1, 8)
    word = np.zeros(len(eights), np.uint64)
    for k in range(8):
        word |= eights[:, k].astype(np.uint64) << np.uint64(k * q)
    packed = word.astype("<u8").view(np.uint8).reshape(-1, 8)[:, :q].reshape(-1)
    return packed[runs(lengths, q * words - lengths)]


def _unpack_codes(q: int, data: Bytes, counts: NDArray, lengths: NDArray) -> NDArray:
    if q == 16:
        return np.ascontiguousarray(data).view("<u2").astype(np.uint16)
    words = -(-counts // 8)
    packed = np.zeros((int(words.sum()), 8), np.uint8)
    padded = np.zeros(q * len(packed), np.uint8)
    padded[runs(lengths, q * words - lengths)] = data
    packed[:, :q] = padded.reshape(-1, q)
    word = packed.view("<u8")[:, 0]
    eights = np.empty((len(word), 8), np.uint8)
    for k in range(8):
        eights[:, k] = (word >> np.uint64(k * q)) & np.uint64((1 << q) - 1)
    return eights.reshape(-1)[runs(counts, 8 * words - counts)]


# Tiles in memory.


@dataclass(frozen=True)
class MemoryImage:
    """Bytes from address ``base`` on, and one command per tile in columns.

    The columns are the fields of ``DecaParams.command_fields``: base address and length in bytes
    of each structure. A structure of no bytes has its region's address.
    """

    base: int
    content: NDArray[np.uint8]
    commands: Columns

    def __len__(self) -> int:
        return len(self.commands["data_base"])


def lay_out(compressed: CompressedTiles, base: int = 0, alignment: int = 1) -> MemoryImage:
    """Three regions from ``base`` on: masks, scales, data; each starts on a line.

    Tiles follow each other at every multiple of ``alignment`` bytes that is free, so with the
    default of 1 a tile's data starts at any byte.
    """
    require(
        1 <= alignment <= 4096 and alignment & (alignment - 1) == 0,
        f"alignment must be a power of two of 1..4096, not {alignment!r}",
    )
    require(base >= 0 and base % ROW_BYTES == 0, f"base must be on a line, not {base:#x}")
    tiles = len(compressed)
    regions = {
        "mask": (compressed.masks.reshape(-1), np.full(tiles, compressed.masks.shape[1])),
        "scale": (compressed.scales.reshape(-1), np.full(tiles, compressed.scales.shape[1])),
        "data": (compressed.data, compressed.data_lengths),
    }
    commands: Columns = {}
    parts: list[NDArray[np.uint8]] = []
    cursor = base
    for name, (content, lengths) in regions.items():
        start = _up(cursor, max(alignment, ROW_BYTES))
        spans = _up(lengths, alignment)
        region = np.zeros(int(spans.sum()), np.uint8)
        region[runs(lengths, spans - lengths)] = content
        parts += [np.zeros(start - cursor, np.uint8), region]
        commands[f"{name}_base"] = start + np.cumsum(spans) - spans
        commands[f"{name}_length"] = lengths
        cursor = start + len(region)
    return MemoryImage(base, np.concatenate(parts), commands)


def _up(value: Any, step: int) -> Any:
    """The next multiple of ``step``, of a number or an array."""
    return -(-value // step) * step
