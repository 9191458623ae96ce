"""The vocabulary head: final norm, logits, and the likeliest token, found by the program alone.

The vector unit finds the largest of a tensor and not its place, but arithmetic does. In a part of
the vocabulary, ``x - largest`` is zero where a logit is the largest and negative elsewhere; times
65,504, twice, it is zero or below -255, whatever fp16 values were there, and e to that is one or
zero. Times numbers that count down to 1, the largest of these is the first place. The same
arithmetic on scalar registers says whether the largest logit so far stays the largest, and keeps
its part and place, or takes the new ones. Both are integers that fp16 holds exactly.

Where tokens are few, banks hold copies of each (``Lowering.head_copies``). A tensor then has a
*turn* of as many parts, each in the banks of a copy, and every bank finds the likeliest of its
parts: :func:`choice_of` compares them.

A logit that is NaN or infinite makes the choice NaN, which :func:`choice_of` refuses.
"""

from collections.abc import Iterator

import numpy as np
from numpy.typing import NDArray

from tilewright.compiler.image import Lines
from tilewright.compiler.lowering import Held, Lowering, Operand, Scalar, Tensor
from tilewright.compiler.sizes import Matrix
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
        for turn, own in enumerate(_turns(matrix, low.head_copies)):
            if own.start >= (parts or own.stop):
                break
            with low.fp16.within(low.work_regions[turn % len(low.work_regions)]):
                logits = low.tensor(len(matrix.parts[own.start]))
                for copy, part in enumerate(own):
                    low.copy = copy if len(own) > 1 else None
                    for k, chunk in enumerate(matrix.chunks(part)):
                        first = chunk.start - matrix.parts[part].start
                        into = Tensor(logits.row + low.machine.row_of(first), len(chunk))
                        given = [(tile, acts, into)]
                        low.multiply_chunk(given, matrix, lines.head, part, k, index=0)
                low.copy = None
                low.turn_to(tile, matrix.name)
                _choose(low, turn, logits, countdown)
                low.store_tile(logits, lines.logits + turn * lines.logit_part)
                low.release(logits)
        _leave_choice(low, countdown)


def _turns(matrix: Matrix, copies: int) -> Iterator[range]:
    """Parts of the vocabulary that are searched at once: one for each copy, then one by one."""
    whole = sum(len(part) == matrix.part for part in matrix.parts) // copies * copies
    yield from (range(k, k + copies) for k in range(0, whole, copies))
    yield from (range(k, k + 1) for k in range(whole, len(matrix.parts)))


class Leaving(Held):
    """A token tile that has left the last layer."""

    def __init__(self, lowering: Lowering, tile: int):
        super().__init__(lowering, "x", lowering.shape.hidden_size, resident=False)

    def line(self, tile: int, first: int) -> int:
        return self.lowering.lines.leaving(tile) + self.lowering.lines_before(first)


def _choose(low: Lowering, turn: int, logits: Tensor, countdown: Tensor) -> None:
    """Look through a turn's logits: keep the largest so far, its turn, and its place in it."""
    s = low.tensor(logits.elements, apart=[logits, countdown])
    low.apply(Operation.LARGEST, logits, into=_MOST)
    low.apply(Operation.SUBTRACT, logits, _MOST, into=s)
    for _ in range(2):
        low.apply(Operation.MULTIPLY, s, _LARGEST, into=s)
    low.apply(Operation.EXPONENTIAL, s, into=s)
    low.apply(Operation.MULTIPLY, s, Tensor(countdown.row, s.elements), into=s)
    low.apply(Operation.LARGEST, s, into=_PLACE)
    low.release(s)
    if not turn:
        for scalar, factor, into in (
            (_MOST, 1.0, _BEST),
            (_MOST, 0.0, _BEST_PART),  # the first; NaN if the logit is no number
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
        (Operation.MULTIPLY, _STAYS, float(turn), _OTHER),
        (Operation.ADD, _BEST_PART, _OTHER, _BEST_PART),
        (Operation.MULTIPLY, _STAYS, _PLACE, _OTHER),
        (Operation.ADD, _BEST_PLACE, _OTHER, _BEST_PLACE),
    ]
    for operation, a, other, into in steps:
        low.apply(operation, a, other, into=into)


def _leave_choice(low: Lowering, countdown: Tensor) -> None:
    """The chosen part and its place, and of copies the logit, each in a tensor of one row."""
    m = low.machine
    size = m.row_values
    for k, scalar in enumerate((_BEST_PART, _BEST_PLACE, _BEST)[: 2 + (low.head_copies > 1)]):
        word = low.tensor(size)
        low.apply(Operation.MULTIPLY, Tensor(countdown.row, size), 0.0, into=word)
        low.apply(Operation.ADD, word, scalar, into=word)
        low.store_tile(word, low.lines.choice + k * m.tile_lines(size))
        low.release(word)


def logits_of(lines: Lines, memory: NDArray[np.uint8], copies: int = 1) -> NDArray[np.float32]:
    """(banks, vocabulary), as the head's program has left them."""
    m, matrix = lines.machine, lines.plan.matrices["head"]
    pieces = []
    for turn, own in enumerate(_turns(matrix, copies)):
        data = memory[(lines.logits + turn * lines.logit_part) * m.params.line_bytes :]
        values = m.tile_values(data, len(matrix.parts[own.start]))
        for copy, _ in enumerate(own):
            pieces.append(values[_banks(m.rows, copies, copy)] if len(own) > 1 else values)
    return np.concatenate(pieces, axis=1).view(np.float16).astype(np.float32)


def _banks(rows: int, copies: int, copy: int) -> NDArray[np.intp]:
    """The bank of a copy of each bank's token."""
    each = rows // copies
    return copy * each + np.arange(rows) % each


def choice_of(lines: Lines, memory: NDArray[np.uint8], bank: int, copies: int = 1) -> int:
    """The token that the head's program has chosen for one bank."""
    m, size, matrix = lines.machine, lines.machine.row_values, lines.plan.matrices["head"]
    words = []
    for k in range(2 + (copies > 1)):
        start = (lines.choice + k * m.tile_lines(size)) * m.params.line_bytes
        words.append(m.tile_values(memory[start:], size)[:, 0])
    found = np.stack(words).view(np.float16)
    turns, best = list(_turns(matrix, copies)), list[tuple[float, int]]()
    for copy in range(copies):
        turn, place, *logit = found[:, _banks(m.rows, copies, copy)[bank]].tolist()
        if not (np.isfinite(turn) and np.isfinite(place)):
            raise ValueError("a logit is NaN or infinite, so there is no likeliest token")
        own = turns[int(turn)]
        token = (own[copy] if len(own) > 1 else own.start) * matrix.part + matrix.part - int(place)
        best.append((-logit[0] if logit else 0.0, token))
    return min(best)[1]
