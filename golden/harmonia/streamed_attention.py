"""Attention over a cache of any length, part after part: the softmax is scaled as it goes.

Every part of the cache has its own largest score. What has been summed before is scaled when a
later part has a larger one, and the results are divided by the sum of all powers at the very end.
Each step is an operation of the vector unit in fp16, so the results depend on where the cache is
cut.
"""

import numpy as np
from numpy.typing import ArrayLike, NDArray

from tilewright.golden import bfp
from tilewright.golden.bits import patterns
from tilewright.golden.harmonia.attention import row_reduced
from tilewright.golden.harmonia.cache import KvCache
from tilewright.golden.harmonia.gemm import gemm
from tilewright.golden.harmonia.mixed import MixedBlocks
from tilewright.golden.machine.vector import elementwise
from tilewright.golden.params.block import require
from tilewright.golden.params.formats import FP16
from tilewright.golden.params.harmonia import HarmoniaNumerics
from tilewright.golden.params.vector import Operation

__all__ = ["attend_streamed"]

_MINUS_INFINITY = 0xFC00


def attend_streamed(
    numerics: HarmoniaNumerics,
    cache: KvCache,
    queries: ArrayLike,
    part: int,
    first: int | None = None,
) -> NDArray[np.uint16]:
    """fp16 patterns (queries, channels); every query sees all tokens, ``part`` of them at a time.

    With ``first``, query k is of token ``first`` + k and sees no later one. ``part`` is a multiple
    of the group.
    """
    require(
        part > 0 and part % numerics.group == 0,
        f"part must be a multiple of {numerics.group}, not {part!r}",
    )
    q = bfp.encode(numerics.activation, patterns(FP16, queries))
    scores, values = gemm(numerics, q, cache.keys()), cache.values()
    top = sums = results = np.empty(0, np.uint16)
    if first is not None:
        seen = first + 1 + np.arange(len(scores))
        scores = scores[:, : seen[-1]].copy()
        scores[np.arange(scores.shape[1]) >= seen[:, np.newaxis]] = _MINUS_INFINITY
    for begin in range(0, scores.shape[1], part):
        now = scores[:, begin : begin + part]
        largest = row_reduced(Operation.LARGEST, now, padding=_MINUS_INFINITY)
        new = elementwise(Operation.MAXIMUM, top, largest) if begin else largest
        powers = elementwise(Operation.POWERS, now, new[:, np.newaxis])
        total = row_reduced(Operation.SUM, powers, padding=0)
        groups = slice(begin // numerics.group, -(-(begin + now.shape[1]) // numerics.group))
        these = _part(values, groups, now.shape[1])
        result = gemm(numerics, bfp.encode(numerics.activation, powers), these)
        if begin:
            scale = elementwise(Operation.EXPONENTIAL, elementwise(Operation.SUBTRACT, top, new))
            sums = elementwise(Operation.MULTIPLY, sums, scale)
            total = elementwise(Operation.ADD, sums, total)
            results = elementwise(Operation.MULTIPLY, results, scale[:, np.newaxis])
            result = elementwise(Operation.ADD, results, result)
        top, sums, results = new, total, result
    share = elementwise(Operation.RECIPROCAL, sums)
    return elementwise(Operation.MULTIPLY, results, share[:, np.newaxis])


def _part(values: MixedBlocks, groups: slice, tokens: int) -> MixedBlocks:
    """Some groups with so many tokens."""
    return MixedBlocks(
        values.sign[:, groups],
        values.mantissa[:, groups],
        values.exponent[:, groups],
        values.bits[:, groups],
        tokens,
    )
