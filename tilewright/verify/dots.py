"""One workload for every processing element: the same dot products, in the form each one takes.

``tilewright compare pe`` gives all PEs the same tensors. A bench derived from :class:`ComparedPE`
says how these become the operands of its PE, so that a new PE enters the comparison by its bench
alone; :class:`PEBench` does most of it for the PEs with the one signature of
:mod:`tilewright.golden.params.pe`.
"""

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, ClassVar, Generic, TypeVar

import numpy as np
from numpy.typing import NDArray

from tilewright.golden.params.block import BlockParams
from tilewright.golden.params.pe import PEParams
from tilewright.golden.payload import Columns
from tilewright.verify.bench import PortColumns, StreamBench
from tilewright.verify.stimuli.dots import BENCH_BEATS, beats_of

GROUP, WEIGHT_BITS = 64, 4  # of the shared tensors: elements with one scale, bits of a weight
MODULES = 4  # streams come in so many blocks, each from one module of a model

B = TypeVar("B", bound=BlockParams)
P = TypeVar("P", bound=PEParams)


@dataclass(frozen=True)
class Tensors:
    """Streams of dot products: fp16 activations times small integer weights in scaled groups."""

    activation: NDArray[np.int64]  # (streams, dots, length) fp16 patterns
    weight: NDArray[np.int64]  # the same shape, integers
    scale: NDArray[np.int64]  # (streams, dots, length // group) fp16 patterns
    group: int = GROUP

    @property
    def groups(self) -> NDArray[np.int64]:
        """The activations with an axis of groups, (streams, dots, groups, group)."""
        return self.activation.reshape(*self.activation.shape[:2], -1, self.group)

    def tile(self, rows: int, columns: int) -> "Tensors":
        """Dot products of every row with every column of an array: a stream for each, row by row.

        Rows have successive tokens of a stream, the fourth row the first token of the next stream
        and so on; columns have the weights of the stream and of those that follow, other outputs
        of the same module for inputs of their own. A module's first stream follows its last.
        """
        streams, dots, _ = self.activation.shape
        tiles = np.indices((streams, rows, columns)).reshape(3, -1, 1)
        (stream, row, column), size = tiles, streams // MODULES
        first, place = stream - stream % size, stream % size
        token = (row + np.arange(dots)) % dots
        of_row, of_column = (first + (place + k) % size for k in (row // dots, column))
        of_column = of_column[:, 0]
        given = self.activation[of_row, token], self.weight[of_column], self.scale[of_column]
        return Tensors(*given, self.group)


@dataclass(frozen=True)
class DotProducts:
    """The operands of one PE and the results that they must give."""

    columns: PortColumns  # per port: (streams, dots, beats) or (streams, dots, beats, count)
    results: Columns  # of the port ``o``: (streams, dots), or as the inputs
    unmeasured: int = 0  # beats of the first port that precede the first dot product


class ComparedPE(ABC, Generic[B]):
    """Methods with which ``tilewright compare pe`` can measure the PE of a bench."""

    # Modes of the PE, and the one for data that is not real.
    variants: ClassVar[tuple[str, ...]] = ("",)
    usual_variant: ClassVar[str] = ""

    @abstractmethod
    def dot_products(self, params: B, tensors: Tensors, variant: str) -> DotProducts:
        """Turn the shared tensors into the operands of this PE, with the golden results."""


class ComparedArray(ComparedPE[B]):
    """Methods with which ``tilewright compare pe --array`` measures an array of PEs.

    Rows share activations, columns weights; a tile has a dot product for every PE. ``growth`` says
    how parts of a record multiply with the array, by their names without numbers: ``pe``, one at
    each place; ``each``, for every PE; ``row``; ``column``; ``memory``, for every column and not
    compared; all others are there ``once``. A part's own parts count with it; ``""`` is the top.
    """

    growth: ClassVar[dict[str, str]]

    @abstractmethod
    def element(self, params: B) -> tuple[ComparedPE, BlockParams]:
        """Return the bench of a PE and its parameters, with which it takes what the array takes."""

    def tile(
        self, params: Any, tensors: Tensors, variant: str
    ) -> tuple[tuple[PortColumns, PortColumns, PortColumns], NDArray]:
        """Columns of every row, of every column and of all, and the fp16 results of tiles.

        Those of rows and columns have the axes (streams, dots, beats, rows, ...), the results
        (streams, dots, rows, columns).
        """
        bench, pe = self.element(params)
        made = bench.dot_products(pe, tensors.tile(params.rows, params.columns), variant)
        lead = (-1, params.rows, params.columns)

        def part(chosen: Callable[[NDArray], NDArray]) -> PortColumns:
            return {
                port: {n: chosen(v.reshape(*lead, *v.shape[1:])) for n, v in columns.items()}
                for port, columns in made.columns.items()
            }

        (results,) = made.results.values()
        parts = (
            part(lambda x: np.moveaxis(x[:, :, 0], 1, 3)),
            part(lambda x: np.moveaxis(x[:, 0], 1, 3)),
            part(lambda x: x[:, 0, 0]),
        )
        return parts, np.moveaxis(results.reshape(*lead, results.shape[-1]), 3, 1)

    def kind(self, path: str) -> str:
        """Return how a part multiplies."""
        return self.growth.get(path.partition(".")[0].partition("_")[0], "once")

    def by_growth(
        self, params: Any, values: Mapping[str, float], driving: Mapping[str, float] | None = None
    ) -> dict[str, float]:
        """Split the area or energy of parts by how they multiply; it sums to the whole.

        An element is the mean of those in neither the first row nor the first column. What these
        have above that is shared by a row or a column: synthesis counts it in the first element.
        ``driving`` is the energy of nets that reach elements: those shared or from outside have as
        many more pins as the array has more elements.
        """
        split = dict.fromkeys(("pe", "each", "row", "column", "memory", "once"), 0.0)
        for energies, reaching in ((values, False), (driving or {}, True)):
            grid = np.zeros((params.rows, params.columns))
            for path, value in energies.items():
                kind = self.kind(path)
                if kind == "pe":
                    grid[tuple(map(int, path.partition(".")[0].split("_")[1:]))] += value
                else:
                    split["each" if reaching else kind] += value
            pe = grid[1:, 1:].mean()
            row, column = grid[1:, 0].mean() - pe, grid[0, 1:].mean() - pe
            shared = {"pe": pe * grid.size}
            if not reaching:
                shared |= {"row": row * params.rows, "column": column * params.columns}
            shared["each" if reaching else "once"] = grid.sum() - sum(shared.values())
            for name, value in shared.items():
                split[name] += value
        return {name: round(float(value), 4) for name, value in split.items()}


def rows_of(results: NDArray) -> Columns:
    """Tiles (..., rows, columns) as the beats of an array that gives them row by row."""
    row = np.broadcast_to(np.arange(results.shape[-2]), results.shape[:-1])
    return {"row": row, "values": results, "last": (row == results.shape[-2] - 1).astype(np.uint8)}


class PEBench(StreamBench[P], ComparedPE[P]):
    """The bench of a PE with the one signature of :mod:`tilewright.golden.params.pe`."""

    @abstractmethod
    def dot(self, params: P, beats: Columns) -> NDArray:
        """Compute one fp16 pattern per dot product by the golden model.

        Columns have the shape (..., beats, lanes) or (..., beats).
        """

    def operands(self, params: P, tensors: Tensors) -> Columns:
        """Turn the shared tensors into the columns of ``i``, in beats.

        By default fp16 activations and integer weights arrive as they are (:func:`in_beats`).
        """
        return in_beats(params, tensors)

    def result_beats(self, params: P) -> int:
        return BENCH_BEATS

    def expected(self, params: P, columns: PortColumns) -> PortColumns:
        return {"o": {"y": self.dot(params, beats_of(columns["i"]))}}

    def dot_products(self, params: P, tensors: Tensors, variant: str) -> DotProducts:
        columns = self.operands(params, tensors)
        return DotProducts({"i": columns}, {"y": self.dot(params, columns)})


def in_beats(params: PEParams, tensors: Tensors) -> Columns:
    """Split the tensors into beats of ``lanes``; every beat has the scale of its group."""
    streams, dots, length = tensors.activation.shape
    beats, per_group = length // params.lanes, tensors.group // params.lanes
    ends = np.zeros((streams, dots, beats), np.int64)
    ends[..., per_group - 1 :: per_group] = 1
    last = np.zeros_like(ends)
    last[..., -1] = 1
    shape = (streams, dots, beats, params.lanes)
    return {
        "activation": tensors.activation.reshape(shape),
        "weight": tensors.weight.reshape(shape),
        "exponent": np.ones_like(ends),
        "scale": np.repeat(tensors.scale, per_group, axis=-1),
        "group_end": ends,
        "last": last,
    }
