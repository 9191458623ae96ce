"""The likeliest token, found by the head's program: the place of the first of the largest logits.

The vector unit finds the largest of a tensor and not its place, but arithmetic does. Of a part of
the vocabulary, ``x - largest`` is zero where a logit is the largest and negative elsewhere; times
65,504, twice, it is zero or below -255, whatever fp16 values were there, and e to that is one or
zero. Times numbers that count down to 1, the largest of these tells the first place. The same
arithmetic on scalar registers says whether the largest logit so far stays the largest, and keeps
its part and place, or takes the new ones. Both are integers that fp16 holds exactly.

A logit that is NaN or infinite makes the choice NaN, which ``choice_of`` refuses.
"""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from tilewright.golden.anda_machine.builder import Builder, Operand, Scalar, Tensor
from tilewright.golden.anda_machine.layout import from_bytes
from tilewright.golden.anda_model.lines import Lines
from tilewright.golden.anda_model.plan import Plan
from tilewright.golden.harmonia_model.choice import NAN_CHOICE
from tilewright.golden.params.anda_machine import Memory
from tilewright.golden.params.vector import Operation

__all__ = ["HeadRows", "choice_of", "choose", "countdown", "write_choice"]

_COUNTED = 2048  # beyond it fp16 has no odd numbers
_LARGEST = 65504.0
# Of the part that is looked through; and of all before it.
_MOST, _PLACE = Scalar(0), Scalar(1)
_BEST, _BEST_PART, _BEST_PLACE = Scalar(2), Scalar(3), Scalar(4)
_STAYS, _OTHER = Scalar(5), Scalar(6)  # one or zero; and what is multiplied by it


@dataclass(frozen=True)
class HeadRows:
    """Rows of the activation buffer that the choice uses."""

    countdown: int  # numbers that count down over the elements of a part
    scratch: int
    end: int

    @classmethod
    def of(cls, plan: Plan) -> "HeadRows | None":
        """Rows behind the activations, in a region of their own where it can be; None: no room."""
        matrix = plan.matrices["head"]
        elements = matrix.part_tiles * matrix.columns
        if max(elements, matrix.parts) > _COUNTED:
            return None
        first = max(plan.region, 3 * plan.width_rows + plan.planes(matrix))
        rows = plan.tensor_rows(elements)
        found = cls(first, first + rows, first + 2 * rows + 1)
        return found if found.end <= 2 * plan.region else None


def countdown(plan: Plan) -> NDArray[np.float64]:
    """The table that the choice needs: places of a part, counted down to 1."""
    matrix = plan.matrices["head"]
    return np.arange(matrix.part_tiles * matrix.columns, 0, -1.0)


def choose(b: Builder, rows: HeadRows, part: int, logits: Tensor) -> None:
    """Look through a part's logits: keep the largest so far, its part, and its place in it."""
    count, s = logits.elements, Tensor(rows.scratch, logits.elements)
    b.apply(Operation.LARGEST, logits, into=_MOST)
    b.apply(Operation.SUBTRACT, logits, _MOST, into=s)
    for _ in range(2):
        b.apply(Operation.MULTIPLY, s, _LARGEST, into=s)
    b.apply(Operation.EXPONENTIAL, s, into=s)
    b.apply(Operation.MULTIPLY, s, Tensor(rows.countdown, count), into=s)
    b.apply(Operation.LARGEST, s, into=_PLACE)
    if not part:
        for scalar, factor, into in (
            (_MOST, 1.0, _BEST),
            (_MOST, 0.0, _BEST_PART),  # part 0; NaN if the logit is no number
            (_PLACE, 1.0, _BEST_PLACE),
        ):
            b.apply(Operation.MULTIPLY, scalar, factor, into=into)
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
        b.apply(operation, a, other, into=into)


def write_choice(b: Builder, rows: HeadRows) -> None:
    """Leave the chosen part and its place, counted down, in the first two rows of the scratch."""
    lanes = b.params.vector.row_lanes
    for k, scalar in enumerate((_BEST_PART, _BEST_PLACE)):
        # Each writes a whole group of rows: the second one behind the first word of the first.
        word = Tensor(rows.scratch + k, lanes)
        b.apply(Operation.MULTIPLY, Tensor(rows.countdown, lanes), 0.0, into=word)
        b.apply(Operation.ADD, word, scalar, into=word)


def choice_of(plan: Plan, lines: Lines, memory: NDArray[np.uint8], bank: int) -> int:
    """The token that the head's program has chosen for one bank."""
    p, matrix = plan.params, plan.matrices["head"]
    words = from_bytes(p, Memory.ACTIVATIONS, memory[lines.choice * p.line_bytes :], 2)
    part, place = np.ascontiguousarray(words)[:, bank, np.newaxis].view(np.float16)[:, 0]
    if not (np.isfinite(part) and np.isfinite(place)):
        raise ValueError(NAN_CHOICE)
    elements = matrix.part_tiles * matrix.columns
    return int(part) * elements + elements - int(place)
