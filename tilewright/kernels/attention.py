"""Attention over pruned keys and values with the compiled kernels; bits of ``golden.sparamx``."""

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from tilewright.golden.params.sparamx import Order, WeightFormat
from tilewright.golden.sparamx import PackedWeights, SparseCache, attend
from tilewright.golden.sparamx.attention import KEY_SPARSITY, VALUE_SPARSITY, prune_cache
from tilewright.kernels.library import Path
from tilewright.kernels.matrix import Matrix, multiply_all


class Cache:
    """Keys and values of one layer, pruned by magnitude over the layer and packed.

    ``keys`` and ``values`` are (heads, tokens, dim) float32. Later tokens go to :meth:`attend` as
    a dense tail.
    """

    def __init__(
        self,
        keys: NDArray[np.float32],
        values: NDArray[np.float32],
        *,
        key_sparsity: float = KEY_SPARSITY,
        value_sparsity: float = VALUE_SPARSITY,
    ):
        self._matrices: dict[int, Matrix] = {}
        self._cache = self._packed(
            prune_cache(keys, key_sparsity), prune_cache(values, value_sparsity), sparse=True
        )

    @property
    def size(self) -> int:
        """Bytes that one step reads."""
        return sum(m.size for m in (*self._cache.keys, *self._cache.values))

    def attend(
        self,
        queries: NDArray[np.uint16],
        tail_keys: NDArray[np.uint16] | None = None,
        tail_values: NDArray[np.uint16] | None = None,
        *,
        threads: int | None = None,
        path: Path | None = None,
        order: Order | None = None,
    ) -> NDArray[np.uint32]:
        """(query heads, dim) bf16 patterns to fp32 patterns; see ``golden.sparamx.attend``.

        The tail's keys and values are (heads, tokens, dim) bf16 patterns. ``order`` is that of
        ``Matrix.multiply`` by default.
        """
        if (tail_keys is None) != (tail_values is None):
            raise ValueError("a tail has keys and values")
        tail = None
        if tail_keys is not None and tail_values is not None:
            tail = self._packed(tail_keys, tail_values, sparse=False)

        def products(
            weights: Sequence[PackedWeights], activations: Sequence[NDArray]
        ) -> list[NDArray]:
            matrices = [self._matrices[id(w)] for w in weights]
            return multiply_all(matrices, activations, threads=threads, path=path, order=order)

        try:
            return attend(self._cache, queries, tail, products)
        finally:
            for packed in (*tail.keys, *tail.values) if tail else ():
                del self._matrices[id(packed)]

    def _packed(self, keys: NDArray, values: NDArray, *, sparse: bool) -> SparseCache:
        def pack(fmt: WeightFormat, weights: NDArray) -> PackedWeights:
            matrix = Matrix.pack(fmt, weights)
            self._matrices[id(matrix.packed)] = matrix
            return matrix.packed

        return SparseCache.of(keys, values, sparse=sparse, pack=pack)
