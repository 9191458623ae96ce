"""Softmax over a cache that streams in parts, for any machine.

A lowering gives ``scores`` of a part, ``powers`` of their differences from the largest, and values
that these ``weigh``. Where more parts follow, the sum of the powers and the weighted values so far
are scaled to the new maximum before the next are added. A cache that fits the chip is one part, and
nothing is scaled.
"""

from collections.abc import Sequence
from typing import Any

from tilewright.compiler.lowering import Scalar, Tensor
from tilewright.golden.params.vector import Operation

# Scalar registers. With one part: the largest score and the sum, of jobs in turn. With several: the
# largest up to a part, of a part alone, and the scale of what is before it, of parts in turn; the
# sum of a part and that of all.
_TURNS = 4
_TOPS, _OWN, _SCALES = (Scalar(0), Scalar(1)), (Scalar(2), Scalar(3)), (Scalar(4), Scalar(5))
_TOTAL, _SUMS = Scalar(6), Scalar(7)


def attend_parts(low: Any, job: Any, parts: Sequence[int]) -> None:
    """Write the attention of the machine's ``job`` over parts of a cache, into ``job.result``."""
    result, turn = job.result, job.number % _TURNS
    if len(parts) == 1:
        top, total = Scalar(2 * turn), Scalar(2 * turn + 1)
        scores = low.scores(job, parts[0], top)
        low.powers(job, parts[0], scores, top, total)
        low.weigh(job, parts[0], scores, result)
        low.release(scores)
    else:
        total = _SUMS
        partial = low.tensor(result.elements, apart=[result])
        for k, part in enumerate(parts):
            _attend_part(low, job, part, k, partial)
        low.release(partial)
    low.apply(Operation.RECIPROCAL, total, into=total)
    low.apply(Operation.MULTIPLY, result, total, into=result)


def _attend_part(low: Any, job: Any, part: int, k: int, partial: Tensor) -> None:
    top, before, scale = _TOPS[k % 2], _TOPS[1 - k % 2], _SCALES[k % 2]
    scores = low.scores(job, part, _OWN[k % 2] if k else top)
    if k:
        low.apply(Operation.MAXIMUM, before, _OWN[k % 2], into=top)
    low.powers(job, part, scores, top, _TOTAL if k else _SUMS)
    if k:
        low.apply(Operation.SUBTRACT, before, top, into=scale)
        low.apply(Operation.EXPONENTIAL, scale, into=scale)
        low.apply(Operation.MULTIPLY, _SUMS, scale, into=_SUMS)
        low.apply(Operation.ADD, _SUMS, _TOTAL, into=_SUMS)
    low.weigh(job, part, scores, partial if k else job.result)
    low.release(scores)
    if k:
        low.apply(Operation.MULTIPLY, job.result, scale, into=job.result)
        low.apply(Operation.ADD, job.result, partial, into=job.result)
