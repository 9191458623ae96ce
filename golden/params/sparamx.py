"""SparAMX: how weights are cut into tiles and stored, and in which order products are summed.

A *tile* is the second operand of an AMX multiplication: 16 rows of 64 bytes (SparAMX paper,
Section 2.4). Row r holds, for each of 16 outputs, the ``depths_per_row`` consecutive inputs from
``r * depths_per_row`` on, side by side (pairs of bf16, quads of int8). A *strip* is the 16 outputs
of a tile over all inputs; strips are stored one after the other.
"""

from dataclasses import dataclass
from enum import Enum

from tilewright.golden.params.block import require
from tilewright.golden.params.deca import ROW_BYTES, TILE_ROWS

STRIP_OUTPUTS = 16  # columns of a tile multiplication: 64 bytes of 32-bit sums
VECTOR_CHAINS = 4  # sums that the vector kernel keeps apart, to hide the latency of one
SEGMENT_TILES = 32  # of a strip, what one thread of the vector kernel takes at a time


class ElementType(Enum):
    BF16 = "bf16"
    INT8 = "int8"

    @property
    def bytes(self) -> int:
        return 2 if self is ElementType.BF16 else 1


class Order(Enum):
    """The order in which products are summed; it decides the last bits of a bf16 result.

    ``TILE``: TDPBF16PS over the tiles of a strip. ``VECTOR``: a strip is cut into segments of 32
    tiles, so that threads can share it. Row r of a segment goes by VDPBF16PS to sum r mod 4; the
    four are added as (0 + 1) + (2 + 3), then segment after segment. int8 results are exact in both.
    """

    TILE = "tile"
    VECTOR = "vector"


@dataclass(frozen=True, kw_only=True)
class WeightFormat:
    """The element type, and whether a bitmap replaces the zeros."""

    element: ElementType = ElementType.BF16
    sparse: bool = True

    def __post_init__(self) -> None:
        require(
            isinstance(self.element, ElementType),
            f"element must be an ElementType, not {self.element!r}",
        )

    @property
    def depths_per_row(self) -> int:
        """Inputs that one 32-bit lane multiplies: 2 of bf16, 4 of int8."""
        return 4 // self.element.bytes

    @property
    def tile_depth(self) -> int:
        """Inputs that a tile spans: 32 of bf16, 64 of int8."""
        return TILE_ROWS * self.depths_per_row

    @property
    def row_elements(self) -> int:
        return ROW_BYTES // self.element.bytes

    @property
    def tile_elements(self) -> int:
        return TILE_ROWS * self.row_elements

    @property
    def metadata_bytes(self) -> int:
        """Bitmap of one tile."""
        return self.tile_elements // 8 if self.sparse else 0

    def grid(self, shape: tuple[int, int]) -> tuple[int, int]:
        """Strips, and tiles of each, of a matrix of (outputs, inputs)."""
        return -(-shape[0] // STRIP_OUTPUTS), -(-shape[1] // self.tile_depth)

    def segments(self, shape: tuple[int, int]) -> int:
        return -(-self.grid(shape)[1] // SEGMENT_TILES)
