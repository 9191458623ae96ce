"""What the tiles of a model's matrices cost a core with a DECA, from the stream model of both.

The stream model gives the cycle in which every tile's TEPL completes and its product ends. Here it
follows tiles of the model itself, with their own bitmasks and lengths, where ``tilewright llm`` has
tiles of the mean density.
"""

from dataclasses import dataclass

from tilewright.golden.deca.matrix import CompressedMatrix
from tilewright.golden.deca.stream import stream_by_tepls
from tilewright.golden.deca.tile_timing import tiles_in_order
from tilewright.golden.params.deca import DecaParams
from tilewright.sim.deca_stream import Integration
from tilewright.sim.system import Server

__all__ = ["FOLLOWED", "MatrixTiles", "matrix_tiles"]

FOLLOWED = 160  # tiles of a matrix that the stream model follows


@dataclass(frozen=True)
class MatrixTiles:
    """Matrices of one kind, of all layers; cycles are predicted by the stream model."""

    name: str
    matrices: int
    tiles: int  # of all of them
    bytes: int
    followed: int  # tiles of the first layer that the stream model followed
    cycles_per_tile: float  # of a core, between the ends of two products

    @property
    def bytes_per_tile(self) -> float:
        return self.bytes / self.tiles


def matrix_tiles(
    params: DecaParams,
    machine: Server,
    name: str,
    matrices: list[CompressedMatrix],
    integration: Integration | None = None,
) -> MatrixTiles:
    """Follow the first tiles of the first of these matrices, as one core of ``machine`` does."""
    how = integration or Integration()
    first = matrices[0].tiles.first(FOLLOWED)
    times = stream_by_tepls(
        params,
        tiles_in_order(params, first),
        how.memory(machine.bytes_per_cycle(machine.cores)),
        how.core(machine.matrix_cycles),
        how.degree,
    )
    # A stream too short for a steady state counts as a whole.
    steady = len(first) >= 24
    return MatrixTiles(
        name=name,
        matrices=len(matrices),
        tiles=sum(len(matrix.tiles) for matrix in matrices),
        bytes=sum(matrix.size for matrix in matrices),
        followed=len(first),
        cycles_per_tile=times.interval if steady else times.product_ends[-1] / len(first),
    )
