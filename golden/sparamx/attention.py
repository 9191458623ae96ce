"""Attention over a pruned cache of keys and values, computed with the kernels of a linear layer.

Keys of a head are the weights of a layer from ``dim`` inputs to ``tokens`` outputs, values those of
one from ``tokens`` inputs to ``dim`` outputs. Query heads that share a head of the cache are its
batch. Later tokens stay dense, in a tail of their own.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Self

import numpy as np
from numpy.typing import NDArray

from tilewright.golden.arith import add
from tilewright.golden.bits import decode, encode
from tilewright.golden.deca.quantise import Pruner
from tilewright.golden.params.block import require
from tilewright.golden.params.formats import BF16, FP32
from tilewright.golden.params.sparamx import Order, WeightFormat
from tilewright.golden.sparamx.linear import multiply
from tilewright.golden.sparamx.packed import PackedWeights, pack

KEY_SPARSITY, VALUE_SPARSITY = 0.3, 0.5  # accuracy falls by less than 1% (paper, Section 6.1)

# One product per head: packed weights and activations to fp32 patterns.
Multiply = Callable[[Sequence[PackedWeights], Sequence[NDArray]], list[NDArray]]


def prune_cache(cache: NDArray[np.float32], sparsity: float) -> NDArray[np.uint16]:
    """(heads, tokens, dim) of one layer to bf16 patterns with the smallest magnitudes zero.

    round(sparsity * all) values of the whole layer become zero; of ties, the last.
    """
    require(0 <= sparsity <= 1, f"sparsity must be 0..1, not {sparsity!r}")
    values = np.ascontiguousarray(cache, np.float32)
    keep = values.size - round(sparsity * values.size)
    mask = Pruner.exact(lambda: [values], keep).mask(values)
    return encode(BF16, np.where(mask, values, np.float32(0))).astype(np.uint16)


@dataclass(frozen=True)
class SparseCache:
    """Keys and values of one layer, packed: one entry per head."""

    keys: list[PackedWeights]  # (tokens, dim)
    values: list[PackedWeights]  # (dim, tokens)

    @classmethod
    def of(
        cls,
        keys: NDArray[np.uint16],
        values: NDArray[np.uint16],
        *,
        sparse: bool = True,
        pack: Callable[[WeightFormat, NDArray], PackedWeights] = pack,
    ) -> Self:
        """Make one of (heads, tokens, dim) bf16 patterns, already pruned."""
        require(
            keys.ndim == 3 and keys.shape == values.shape,
            f"keys {keys.shape} and values {values.shape} must both be (heads, tokens, dim)",
        )
        fmt = WeightFormat(sparse=sparse)
        transposed = (np.ascontiguousarray(head.T) for head in values)
        return cls([pack(fmt, head) for head in keys], [pack(fmt, head) for head in transposed])


def attention_weights(scores: NDArray[np.uint32], dim: int) -> NDArray[np.uint16]:
    """bf16 softmax of fp32 scores / sqrt(dim) along the last axis.

    In float64, so that the one rounding to bf16 decides the result.
    """
    scaled = decode(FP32, scores) / np.sqrt(np.float64(dim))
    powers = np.exp(scaled - scaled.max(axis=-1, keepdims=True))
    return encode(BF16, powers / powers.sum(axis=-1, keepdims=True)).astype(np.uint16)


def attend(
    cache: SparseCache,
    queries: NDArray[np.uint16],
    tail: SparseCache | None = None,
    products: Multiply | None = None,
    *,
    order: Order = Order.VECTOR,
) -> NDArray[np.uint32]:
    """(query heads, dim) bf16 patterns to fp32 patterns of the same shape.

    Query heads are in groups of equal size, one group per head of the cache. ``products``
    computes the products; by default the golden kernel does, in the given ``order``.
    """
    heads, dim = len(cache.keys), queries.shape[-1]
    require(
        queries.ndim == 2 and len(queries) % heads == 0,
        f"queries {queries.shape} do not fall into {heads} groups of heads",
    )
    if products is None:

        def products(of: Sequence[PackedWeights], with_: Sequence[NDArray]) -> list[NDArray]:
            return [multiply(m, a, order) for m, a in zip(of, with_, strict=True)]

    groups = list(queries.reshape(heads, -1, dim))
    parts = [cache, *([tail] if tail else [])]
    scores = [products(part.keys, groups) for part in parts]
    joined = [np.concatenate(of_head, axis=-1) for of_head in zip(*scores, strict=True)]
    weights = [attention_weights(of_head, dim) for of_head in joined]
    out, first = None, 0
    for part in parts:
        tokens = part.keys[0].shape[0]
        chosen = [np.ascontiguousarray(w[:, first : first + tokens]) for w in weights]
        result = np.concatenate(products(part.values, chosen))
        out = result if out is None else add(FP32, FP32, FP32, out, result)
        first += tokens
    return np.asarray(out).reshape(queries.shape)
