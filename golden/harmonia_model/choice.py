"""The likeliest token, found by programs alone: the place of the first of the largest logits.

The vector unit finds the largest of a row and not its place, but arithmetic does. Of a part of the
vocabulary, ``x - largest`` is zero where a logit is the largest and negative elsewhere; times
65,504, twice, it is zero or below -255, whatever fp16 values were there, and e to that is one or
zero. Times numbers that count down to 1, the largest of these tells the first place. The same is
done with the parts' largest values, and so the program leaves two numbers for every bank of the
token tile: a part, and a place within it. Both are integers that fp16 holds exactly.

A logit that is NaN or infinite makes the choice NaN, which ``choice_of`` refuses.
"""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from tilewright.golden.bits import encode
from tilewright.golden.harmonia_machine.layout import halves_rows, to_bytes
from tilewright.golden.harmonia_model.lines import Lines
from tilewright.golden.harmonia_model.plan import Plan
from tilewright.golden.harmonia_model.writer import Writer, half
from tilewright.golden.params.formats import FP16
from tilewright.golden.params.harmonia_machine import Memory
from tilewright.golden.params.machine import Kind
from tilewright.golden.params.vector import Operation

__all__ = [
    *("NAN_CHOICE", "PART_INDEX", "PART_MAXIMA", "HeadRows", "choice_of", "choice_tables"),
    *("choose_of_part", "choose_part"),
]

NAN_CHOICE = "a logit is NaN or infinite, so there is no likeliest token"
PART_INDEX = 3  # the index register that counts parts
_LARGEST = half(65504.0)
# Scalar registers; largest logits of parts of even and of odd number, which a product keeps.
_MOST, _PLACE = 0, 1
PART_MAXIMA = (2, 3)


@dataclass(frozen=True)
class HeadRows:
    """Rows of the fp16 memory that the head's program uses."""

    logits: tuple[int, int]  # of a part, of even and of odd number
    ones: int  # a word of ones, then numbers that count down over the elements of a part
    scratch: int
    parts: int  # numbers that count down over the parts, a word each
    maxima: int  # of every part, a word each
    places: int  # the same of places

    @property
    def countdown(self) -> int:
        return self.ones + 1

    @classmethod
    def of(cls, plan: Plan) -> "HeadRows | None":
        """What lies in regions of its own where it can; None where there is no room for all."""
        step = plan.params.region_rows(Memory.FP16)
        return cls._placed(plan, step) or cls._placed(plan, 1)

    @classmethod
    def _placed(cls, plan: Plan, step: int) -> "HeadRows | None":
        matrix, parts = plan.matrices["head"], plan.head_parts
        words = plan.output_words(matrix) // matrix.parts
        if max(words * plan.params.word_values, parts) > 2048:  # beyond it fp16 has no odd numbers
            return None
        first = _up(max(3 * plan.width_words, 2 * parts), step)
        second = _up(first + words, step)
        ones = _up(second + words, step)
        scratch = ones + 1 + words
        maxima = scratch + max(words, parts, 2)
        if maxima + parts > plan.params.halves_rows:
            return None
        # The tokens' rows are free by the time of the first choice.
        return cls((first, second), ones, scratch, parts=0, maxima=maxima, places=parts)


def _up(row: int, step: int) -> int:
    return -(-row // step) * step


def choice_tables(plan: Plan) -> list[NDArray[np.uint8]]:
    """What the choice needs: ones and places of a part counted down; and parts counted down."""
    p, matrix = plan.params, plan.matrices["head"]
    elements = matrix.part_tiles * p.columns
    ones = np.ones(p.word_values)
    tables = (
        np.concatenate([ones, np.arange(elements, 0, -1)]),
        np.repeat(np.arange(plan.head_parts, 0, -1), p.word_values),
    )
    return [
        to_bytes(p, Memory.FP16, halves_rows(p, np.tile(encode(FP16, table), (p.rows, 1))))
        for table in tables
    ]


def choose_of_part(
    b: Writer, rows: HeadRows, part: int, elements: int, *, index: int = 0, whole: bool = True
) -> None:
    """Keep the largest of a part's logits, and its place, counted down.

    The product has left the largest in a register, but where the part is not ``whole`` that may be
    what fills it up.
    """
    logits, most = rows.logits[part % 2], PART_MAXIMA[part % 2]
    if not whole:
        b.work(Operation.LARGEST, most, logits, elements=elements)
    _first(b, rows, logits, rows.countdown, elements, most=most, place=_PLACE)
    one = b.params.word_values
    for row, scalar in ((rows.maxima, most), (rows.places, _PLACE)):
        b.work(
            Operation.MULTIPLY,
            row + part,
            rows.ones,
            scalar,
            elements=one,
            kind=Kind.SCALAR,
            destination_index=index,
        )


def _first(
    b: Writer, rows: HeadRows, source: int, countdown: int, elements: int, *, most: int, place: int
) -> None:
    """The largest number of ``countdown`` where ``source`` is scalar ``most``; scratch has all."""
    s = rows.scratch
    b.work(Operation.SUBTRACT, s, source, most, elements=elements, kind=Kind.SCALAR)
    for _ in range(2):
        b.work(Operation.MULTIPLY, s, s, _LARGEST, elements=elements, kind=Kind.IMMEDIATE)
    b.work(Operation.EXPONENTIAL, s, s, elements=elements)
    b.work(Operation.MULTIPLY, s, s, countdown, elements=elements)
    b.work(Operation.LARGEST, place, s, elements=elements)


def choose_part(b: Writer, rows: HeadRows, parts: int, line: int) -> None:
    """Store the part that has the largest logit, and its place, as two words of every bank."""
    p, s = b.params, rows.scratch
    elements = parts * p.word_values
    b.work(Operation.LARGEST, _MOST, rows.maxima, elements=elements)
    _first(b, rows, rows.maxima, rows.parts, elements, most=_MOST, place=_PLACE)
    # The scratch has the numbers of all parts that have the largest value, and zeros; one is
    # _PLACE. Differences are integers here.
    b.work(Operation.SUBTRACT, s, s, _PLACE, elements=elements, kind=Kind.SCALAR)
    b.work(Operation.MULTIPLY, s, s, _LARGEST, elements=elements, kind=Kind.IMMEDIATE)
    b.work(Operation.EXPONENTIAL, s, s, elements=elements)
    b.work(Operation.MULTIPLY, s, s, rows.places, elements=elements)
    b.work(Operation.LARGEST, _MOST, s, elements=elements)
    matrix = b.plan.matrices["head"]
    for row, scalar, top in (
        (s, _PLACE, b.plan.head_parts),
        (s + 1, _MOST, matrix.part_tiles * p.columns),
    ):
        one = p.word_values
        b.work(Operation.MULTIPLY, row, rows.ones, scalar, elements=one, kind=Kind.SCALAR)
        b.work(Operation.MULTIPLY, row, row, half(-1.0), elements=one, kind=Kind.IMMEDIATE)
        b.work(Operation.ADD, row, row, half(float(top)), elements=one, kind=Kind.IMMEDIATE)
    b.keep(Memory.FP16, s, 2, line)


def choice_of(plan: Plan, lines: Lines, memory: NDArray[np.uint8], bank: int) -> int:
    """The token that the head's program has chosen for one bank."""
    p = plan.params
    start = lines.choice * p.line_bytes
    words = memory[start : start + 2 * p.row_bits(Memory.FP16) // 8].copy().view(np.float16)
    part, place = words.reshape(2, p.rows, p.word_values)[:, bank, 0]
    if not (np.isfinite(part) and np.isfinite(place)):
        raise ValueError(NAN_CHOICE)
    return int(part) * plan.matrices["head"].part_tiles * p.columns + int(place)
