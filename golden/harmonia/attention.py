"""One attention head in block floating point: scores, their powers, weighted values.

Q is converted along its channels and multiplied by the cached K; the scores are fp16. The vector
unit computes powers of the scores less the largest, and their sums. The powers are converted along
the tokens, in the same groups as V, and multiplied by the cached V; the results are divided by the
sums. The factor 1/sqrt(channels) belongs to W_Q, like the smoothing factors.

All queries of a call see the cache with the windows at its end.
"""

import numpy as np
from numpy.typing import ArrayLike, NDArray

from tilewright.golden import bfp
from tilewright.golden.bits import patterns
from tilewright.golden.harmonia.cache import KvCache
from tilewright.golden.harmonia.gemm import gemm
from tilewright.golden.machine.vector import elementwise, largest, reduce_tensor
from tilewright.golden.params.block import require
from tilewright.golden.params.formats import FP16
from tilewright.golden.params.harmonia import HarmoniaNumerics
from tilewright.golden.params.vector import Operation

ROW_LANES = 4  # fp16 values of one row in a word of 64 bits: the order of softmax's sum
_ONE = 0x3C00
_MINUS_INFINITY = 0xFC00


def attend(numerics: HarmoniaNumerics, cache: KvCache, queries: ArrayLike) -> NDArray[np.uint16]:
    """fp16 patterns (queries, channels); the queries are the newest tokens, in order, causal."""
    q = patterns(FP16, queries)
    require(
        q.ndim == 2 and q.shape[1] == cache.channels,
        f"queries must have the shape (tokens, {cache.channels}), not {q.shape}",
    )
    require(1 <= len(q) <= cache.tokens, f"{len(q)} queries but {cache.tokens} tokens in the cache")
    scores = gemm(numerics, bfp.encode(numerics.activation, q), cache.keys)
    seen = cache.tokens - len(q) + 1 + np.arange(len(q))  # tokens including the query's own
    raised = powers(scores, seen)
    total = row_sums(raised)
    results = gemm(numerics, bfp.encode(numerics.activation, raised), cache.values)
    share = elementwise(Operation.RECIPROCAL, total)
    return elementwise(Operation.MULTIPLY, results, share[:, np.newaxis])


def powers(scores: NDArray[np.uint16], seen: NDArray[np.int64]) -> NDArray[np.uint16]:
    """e^(score - largest) of the first ``seen`` scores of each row, fp16; +0 beyond."""
    visible = np.arange(scores.shape[1]) < seen[:, np.newaxis]
    masked = np.where(visible, scores, _MINUS_INFINITY)
    return elementwise(Operation.POWERS, masked, largest(scores, visible)[:, np.newaxis])


def row_sums(values: NDArray[np.uint16]) -> NDArray[np.uint16]:
    """The sum of each row, in the vector unit's order of words and lanes."""
    tokens = values.shape[1]
    words = np.pad(values, [(0, 0), (0, -tokens % ROW_LANES)])
    return reduce_tensor(Operation.SUM, words, words, tokens, ROW_LANES, _ONE)
