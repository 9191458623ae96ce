"""The order in which a large GEMM is done, tile by tile, for any accelerator.

Token tiles come in *blocks*, weights in *parts* that fit half of their memory: while one half is
used, the next part comes into the other. One loop is inside the other; what the outer one holds
stays on chip while what the inner one goes through passes.
"""

from collections.abc import Iterator, Sequence
from itertools import product
from typing import NamedTuple, TypeVar

from numpy.typing import NDArray

from tilewright.golden.params.block import require
from tilewright.golden.params.machine import MachineMemory, MachineParams

Item = TypeVar("Item")

# Also weights that would fit at once come in so many parts: all but the first while others are
# used.
LEAST_PARTS = 4


class Step(NamedTuple):
    """One block meets one part."""

    block: int
    part: int
    fetch: bool  # the block's activations come first
    half: int  # of the memory of weights, where the part is
    ahead: int | None  # the part that comes meanwhile, into the other half


def steps(blocks: int, parts: int, *, weights_stay: bool) -> Iterator[Step]:
    """All steps; the first part is in half 0 when they begin."""
    if weights_stay:
        order = [(block, part) for part, block in product(range(parts), range(blocks))]
    else:
        order = list(product(range(blocks), range(parts)))
    half, resident = 0, None
    for k, (block, part) in enumerate(order):
        fetch, resident = block != resident, block
        if weights_stay:
            ahead = part + 1 if block == 0 and part + 1 < parts else None
        else:
            following = order[k + 1][1] if k + 1 < len(order) else part
            ahead = following if following != part else None
        yield Step(block, part, fetch, half, ahead)
        if k + 1 < len(order) and order[k + 1][1] != part:
            half = 1 - half


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


def load_time(params: MachineParams, memory: MachineMemory, rows: int) -> int:
    """Cycles of a load that begins at a beat, but for the memory's latency."""
    together = params.beat_rows(memory)
    return -(-rows // together) if together else max(rows, params.lines(memory, rows))


def beside_weights(units: int, unit_cycles: int, weights: int, scales: int) -> int:
    """How many of ``units`` run beside the load of the next weights before that of their scales.

    The port does one load at a time, and a second one holds up the program until the first is
    done. So the scales, in ``scales`` cycles, come beside the last units; 0: not even all units
    take as long as the weights, which then come last.
    """
    if units * unit_cycles <= weights:
        return 0
    return max(0, units - -(-scales // unit_cycles))
