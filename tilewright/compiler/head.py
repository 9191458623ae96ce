"""The vocabulary head: final norm, logits, and the likeliest token, found by the program alone.

The vector unit finds the largest of a tensor and not its place, but arithmetic does. In a part of
the vocabulary, ``x - largest`` is zero where a logit is the largest and negative elsewhere; times
65,504, twice, it is zero or below -255, whatever fp16 values were there, and e to that is one or
zero. Times numbers that count down to 1, the largest of these is the first place. The same
arithmetic on scalar registers says whether the largest logit so far stays the largest, and keeps
its part and place, or takes the new ones. Both are integers that fp16 holds exactly.

A logit that is NaN or infinite makes the choice NaN, which :func:`choice_of` refuses.
"""

import numpy as np
from numpy.typing import NDArray

from tilewright.compiler.image import Lines
from tilewright.compiler.lowering import Held, Lowering, Operand, Scalar, Tensor
from tilewright.golden.params.vector import Operation

_LARGEST = 65504.0
# Scalars of the part that is searched, then of all parts before it.
_MOST, _PLACE = Scalar(0), Scalar(1)
_BEST, _BEST_PART, _BEST_PLACE = Scalar(2), Scalar(3), Scalar(4)
_STAYS, _OTHER = Scalar(5), Scalar(6)  # one or zero; and its factor


def lower_head(low: Lowering, tile: int, parts: int | None = None) -> None:
    """Logits and the choice of every token of a tile that has left the last layer."""
    plan, lines = low.plan, low.lines
    matrix = plan.matrices["head"]
    low.tile = tile
    with low.operation("head"):
        low.x = Leaving(low, tile)
        acts = low.norm("final_norm", tile, matrix)
        with low.fp16.within(low.fp16.regions - 1):
            countdown = low.tensor(matrix.part)
        low.load_vector(countdown, lines.countdown)
        for part in range(len(matrix.parts))[:parts]:
            with low.fp16.within(low.work_regions[part % len(low.work_regions)]):
                logits = low.tensor(len(matrix.parts[part]))
                for k, chunk in enumerate(matrix.chunks(part)):
                    row = logits.row + low.machine.row_of(chunk.start - matrix.parts[part].start)
                    into = Tensor(row, len(chunk))
                    low.multiply_chunk([(tile, acts, into)], matrix, lines.head, part, k, index=0)
                _choose(low, part, logits, countdown)
                low.store_tile(logits, lines.logits + part * lines.logit_part)
                low.release(logits)
        _leave_choice(low, countdown)


class Leaving(Held):
    """A token tile that has left the last layer."""

    def __init__(self, lowering: Lowering, tile: int):
        super().__init__(lowering, "x", lowering.shape.hidden_size, resident=False)

    def line(self, tile: int, first: int) -> int:
        return self.lowering.lines.leaving(tile) + self.lowering.lines_before(first)


def _choose(low: Lowering, part: int, logits: Tensor, countdown: Tensor) -> None:
    """Look through a part's logits: keep the largest so far, its part, and its place in it."""
    s = low.tensor(logits.elements, apart=[logits, countdown])
    low.apply(Operation.LARGEST, logits, into=_MOST)
    low.apply(Operation.SUBTRACT, logits, _MOST, into=s)
    for _ in range(2):
        low.apply(Operation.MULTIPLY, s, _LARGEST, into=s)
    low.apply(Operation.EXPONENTIAL, s, into=s)
    low.apply(Operation.MULTIPLY, s, Tensor(countdown.row, s.elements), into=s)
    low.apply(Operation.LARGEST, s, into=_PLACE)
    low.release(s)
    if not part:
        for scalar, factor, into in (
            (_MOST, 1.0, _BEST),
            (_MOST, 0.0, _BEST_PART),  # part 0; NaN if the logit is no number
            (_PLACE, 1.0, _BEST_PLACE),
        ):
            low.apply(Operation.MULTIPLY, scalar, factor, into=into)
        return
    steps: list[tuple[Operation, Scalar, Operand, Scalar]] = [
        (Operation.MAXIMUM, _MOST, _BEST, _MOST),
        (Operation.SUBTRACT, _BEST, _MOST, _STAYS),
        (Operation.MULTIPLY, _STAYS, _LARGEST, _STAYS),
        (Operation.MULTIPLY, _STAYS, _LARGEST, _STAYS),
        (Operation.EXPONENTIAL, _STAYS, 0.0, _STAYS),
        (Operation.MULTIPLY, _MOST, 1.0, _BEST),
        (Operation.MULTIPLY, _BEST_PART, _STAYS, _BEST_PART),
        (Operation.MULTIPLY, _BEST_PLACE, _STAYS, _BEST_PLACE),
        (Operation.MULTIPLY, _STAYS, -1.0, _STAYS),
        (Operation.ADD, _STAYS, 1.0, _STAYS),  # one where the new part has the largest
        (Operation.MULTIPLY, _STAYS, float(part), _OTHER),
        (Operation.ADD, _BEST_PART, _OTHER, _BEST_PART),
        (Operation.MULTIPLY, _STAYS, _PLACE, _OTHER),
        (Operation.ADD, _BEST_PLACE, _OTHER, _BEST_PLACE),
    ]
    for operation, a, other, into in steps:
        low.apply(operation, a, other, into=into)


def _leave_choice(low: Lowering, countdown: Tensor) -> None:
    """The chosen part and its place, each in a tensor of one row."""
    m = low.machine
    size = m.row_values
    for k, scalar in enumerate((_BEST_PART, _BEST_PLACE)):
        word = low.tensor(size)
        low.apply(Operation.MULTIPLY, Tensor(countdown.row, size), 0.0, into=word)
        low.apply(Operation.ADD, word, scalar, into=word)
        low.store_tile(word, low.lines.choice + k * m.tile_lines(size))
        low.release(word)


def logits_of(lines: Lines, memory: NDArray[np.uint8]) -> NDArray[np.float32]:
    """(banks, vocabulary), as the head's program has left them."""
    m, matrix = lines.machine, lines.plan.matrices["head"]
    pieces = []
    for k, part in enumerate(matrix.parts):
        data = memory[(lines.logits + k * lines.logit_part) * m.params.line_bytes :]
        pieces.append(m.tile_values(data, len(part)))
    return np.concatenate(pieces, axis=1).view(np.float16).astype(np.float32)


def choice_of(lines: Lines, memory: NDArray[np.uint8], bank: int) -> int:
    """The token that the head's program has chosen for one bank."""
    m, size = lines.machine, lines.machine.row_values
    found = []
    for k in range(2):
        start = (lines.choice + k * m.tile_lines(size)) * m.params.line_bytes
        word = m.tile_values(memory[start:], size)[bank, :1]
        found.append(np.ascontiguousarray(word).view(np.float16)[0])
    part, place = found
    if not (np.isfinite(part) and np.isfinite(place)):
        raise ValueError("a logit is NaN or infinite, so there is no likeliest token")
    matrix = lines.plan.matrices["head"]
    return int(part) * matrix.part + matrix.part - int(place)
