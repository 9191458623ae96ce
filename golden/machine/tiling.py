"""The order in which a large GEMM is done, tile by tile, for any accelerator.

Token tiles come in *blocks*, weights in *parts* that fit half of their memory: while one half is
used, the next part comes into the other; activations and results have two places where there is
room. One loop is inside the other; what the outer one holds stays on chip while what the inner one
goes through passes.
"""

from collections.abc import Iterator, Sequence
from itertools import product, zip_longest
from typing import Generic, NamedTuple, TypeVar

from numpy.typing import NDArray

from tilewright.golden.params.block import require

Item = TypeVar("Item")

# Also weights that would fit at once come in so many parts: all but the first while others are
# used.
LEAST_PARTS = 4


class Step(NamedTuple):
    """One block meets one part."""

    block: int
    part: int
    block_half: int  # where the block's activations are
    part_half: int  # of the memory of weights, where the part is
    new_block: bool  # its activations come for this step
    new_part: bool


def steps(blocks: int, parts: int, *, weights_stay: bool) -> Iterator[Step]:
    """All steps; what is new comes into the half that the one before it does not use."""
    if weights_stay:
        order = [(block, part) for part, block in product(range(parts), range(blocks))]
    else:
        order = list(product(range(blocks), range(parts)))
    last = Step(-1, -1, 1, 1, False, False)
    for block, part in order:
        new_block, new_part = block != last.block, part != last.part
        halves = last.block_half ^ new_block, last.part_half ^ new_part
        last = Step(block, part, *halves, new_block, new_part)
        yield last


class Piece(NamedTuple, Generic[Item]):
    """The instructions of a step."""

    weights: Sequence[Item]  # loads of the largest tensor, into a half that no other step uses
    others: Sequence[Item]  # the other loads
    work: Sequence[Item]
    results: Sequence[Item]  # stores


def pipelined(pieces: Sequence[Piece[Item]], *, results_stay: bool) -> list[list[Item]]:
    """All instructions, in an order in which the units work at the same time.

    Units take instructions in the order of the program. So weights of the next step are asked for
    before the work of this one, everything else of it behind; and results are stored behind the
    work of the next step, which ``results_stay`` allows: it writes to another place.
    """
    ordered: list[list[Item]] = [[*pieces[0].weights, *pieces[0].others]]
    stores: Sequence[Item] = ()
    for piece, following in zip_longest(pieces, pieces[1:]):
        weights, others = (following.weights, following.others) if following else ((), ())
        first, last = ((), stores) if results_stay else (stores, ())
        ordered.append([*first, *weights, *piece.work, *last, *others])
        stores = piece.results
    return [*ordered, [*stores]]


def places(depth: int, region_rows: int, *tensors: tuple[int, int]) -> list[list[int]] | None:
    """Rows where tensors begin, each in regions of its own; None if they do not fit.

    A tensor is its rows and the number of its copies.
    """
    row, found = 0, []
    for rows, copies in tensors:
        step = -(-rows // region_rows) * region_rows
        found.append([row + k * step for k in range(copies)])
        row += copies * step
    return found if row <= depth else None


def packed(
    pieces: Sequence[Sequence[Item]], first: Sequence[Item], last: Item, most: int | None
) -> list[list[Item]]:
    """Programs of at most ``most`` instructions that begin and end so; none cuts a piece in two.

    Without ``most`` it is one program.
    """
    programs: list[list[Item]] = []
    for piece in pieces:
        if not programs or (most and len(programs[-1]) + len(piece) >= most):
            programs.append([*first])
        programs[-1].extend(piece)
    return [[*program, last] for program in programs]


def require_shapes(
    values: NDArray, weights: NDArray, tokens: int, inputs: int, outputs: int
) -> None:
    """Refuse activations (tokens, inputs) and weights (outputs, inputs) of another GEMM."""
    require(
        values.shape == (tokens, inputs) and weights.shape == (outputs, inputs),
        f"values {values.shape} and weights {weights.shape} are not of this GEMM",
    )


def cut(size: int, most: int) -> list[int]:
    """Sizes of the pieces, all but the last as large as they may be."""
    return [min(most, size - first) for first in range(0, size, most)]
