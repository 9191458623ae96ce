"""External memory accesses of a tiled GEMM, A (M x N) times B (N x K), in elements.

Column-major output keeps k columns of B on chip while all of A passes, so A is read once for every
tile of columns; row-major output keeps m rows of A while all of B passes. Tiles are whole: a
ragged edge costs as much as a full tile's pass over the other matrix.
"""

from dataclasses import dataclass

from tilewright.golden.params.harmonia_machine import Dataflow


@dataclass(frozen=True)
class TiledShape:
    """The shapes of one GEMM and of its tiles."""

    rows: int  # M, tokens
    inner: int  # N
    columns: int  # K
    tile_rows: int  # m
    tile_columns: int  # k

    def __post_init__(self) -> None:
        for name, value in vars(self).items():
            if value < 1:
                raise ValueError(f"{name} must be at least 1, not {value!r}")

    def accesses(self, dataflow: Dataflow) -> int:
        """Elements of A and B read from external memory."""
        return round(self.bits(dataflow, 1, 1))

    def bits(self, dataflow: Dataflow, a_bits: float, b_bits: float) -> float:
        """The same in bits, with the storage of an element of A and of B."""
        a, b = self.rows * self.inner * a_bits, self.inner * self.columns * b_bits
        if dataflow is Dataflow.COLUMN_MAJOR:
            return -(-self.columns // self.tile_columns) * a + b
        return -(-self.rows // self.tile_rows) * b + a

    @property
    def better(self) -> Dataflow:
        column, row = (self.accesses(d) for d in Dataflow)
        return Dataflow.COLUMN_MAJOR if column < row else Dataflow.ROW_MAJOR
