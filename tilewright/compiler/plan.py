"""A model on a machine before any step: matrices in parts, and how a prompt is fed."""

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from math import lcm

from tilewright.compiler.graph import Matmul, layer_graph, matrix_sizes, refusal
from tilewright.compiler.machine import Machine
from tilewright.compiler.sizes import Matrix, Sizes
from tilewright.golden.params.block import require

SPLIT_PARTS = 4  # of a product with long work after it, which runs while the next is multiplied
PART = 512  # outputs of a part: more take room, fewer take instructions
HEAD_PART = 1024
MOST_SEQUENCES = 1 << 16  # beyond it an image is larger than any memory


@dataclass(frozen=True, kw_only=True)
class Plan(Sizes):
    """A model on a machine: its matrices in parts, with weights of some bits."""

    machine: Machine
    weight_bits: int = 4
    head_bits: int = 8

    def __post_init__(self) -> None:
        shape = self.shape
        require(not refusal(shape), refusal(shape))
        require(
            shape.sliding_layers == 0 or self.context <= (shape.sliding_window or 0),
            f"{shape.name}: a context of {self.context} tokens is longer than the window of"
            " attention",
        )
        for name, bits in (("weights", self.weight_bits), ("head", self.head_bits)):
            require(bits in (4, 8), f"{name} have 4 or 8 bits, not {bits!r}")
        require(
            1 <= self.context <= shape.max_position_embeddings,
            f"context must be 1..{shape.max_position_embeddings}, not {self.context!r}",
        )
        require(
            1 <= self.sequences <= MOST_SEQUENCES,
            f"sequences must be 1..{MOST_SEQUENCES}, not {self.sequences!r}",
        )
        self.machine.check_shape(shape)
        _ = self.matrices

    @cached_property
    def graph(self) -> tuple:
        return layer_graph(self.shape)

    @cached_property
    def matrices(self) -> dict[str, Matrix]:
        """Those of a layer in the order in which they are used, and the ``head``."""
        sizes = matrix_sizes(self.shape)
        split = {w for op in self.graph if isinstance(op, Matmul) and op.result for w in op.weights}
        return {name: self._matrix(name, *sizes[name], split=name in split) for name in sizes}

    def _matrix(self, name: str, outputs: int, inputs: int, *, split: bool) -> Matrix:
        m = self.machine
        bits = self.head_bits if name == "head" else self.weight_bits
        groups = bits // 4 * -(-inputs // m.params.group)
        unit = lcm(m.output_unit, self.shape.head_dim) if name in ("q", "k", "v") else m.output_unit
        piece = m.piece(groups)
        rows = m.tile_weight_rows(piece or groups)
        least = m.chunk_unit // m.params.columns
        require(
            least * rows <= m.most_part_rows,
            f"{self.shape.name}: {m.chunk_unit} outputs of {name} with {inputs} inputs of {bits}"
            f" bits do not fit the weights' memory of {m.params.slug}",
        )
        chunk = max(least, m.part_rows // rows // least * least) * m.params.columns
        most = min(HEAD_PART, m.most_counted) if name == "head" else PART
        parts = max(-(-outputs // most), SPLIT_PARTS if split else 1)
        each = -(-outputs // parts)
        part = -(-each // unit) * unit
        return Matrix(name, outputs, inputs, bits, groups, part, min(chunk, part), piece)


def step_sizes(plan: Plan, first: int, count: int) -> Iterator[tuple[int, int]]:
    """First token and size of the steps in which ``count`` tokens of a sequence are fed.

    A step of several tokens begins at a tile of the cache; other tokens are fed one by one.
    """
    unit, most = plan.machine.step_unit, plan.machine.step_tokens
    end = first + count
    while first < end:
        size = min(most, end - first) if first % unit == 0 else 1
        yield first, size
        first += size
