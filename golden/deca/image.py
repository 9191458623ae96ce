"""Compressed tiles in memory, as a core lays them out, and the command that fetches each."""

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tilewright.golden.deca.coding import CompressedTiles, runs
from tilewright.golden.params.block import require
from tilewright.golden.params.deca import ROW_BYTES
from tilewright.golden.payload import Columns

REGION_ALIGNMENT = ROW_BYTES  # regions start on a line; tiles inside need not


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

    def line(self, number: int, line_bytes: int = ROW_BYTES) -> bytes:
        """The line at address ``number * line_bytes``; bytes outside the image are 0."""
        start = number * line_bytes - self.base
        inside = self.content[max(start, 0) : max(start + line_bytes, 0)].tobytes()
        return inside.rjust(line_bytes, b"\0") if start < 0 else inside.ljust(line_bytes, b"\0")


def lay_out(compressed: CompressedTiles, base: int = 0, alignment: int = 1) -> MemoryImage:
    """Three regions from ``base`` on: masks, scales, data; each starts on a line.

    Tiles follow each other at every multiple of ``alignment`` bytes that is free, so with the
    default of 1 a tile's data starts at any byte.
    """
    require(
        1 <= alignment <= 4096 and alignment & (alignment - 1) == 0,
        f"alignment must be a power of two of 1..4096, not {alignment!r}",
    )
    require(base >= 0 and base % REGION_ALIGNMENT == 0, f"base must be on a line, not {base:#x}")
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
        start = _up(cursor, max(alignment, REGION_ALIGNMENT))
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
