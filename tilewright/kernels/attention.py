"""Attention over pruned keys and values with the compiled kernels; bits of ``golden.sparamx``."""

from collections.abc import Sequence
from ctypes import Array, addressof

import numpy as np
from numpy.typing import NDArray

from tilewright.golden.params.block import require
from tilewright.golden.params.deca import TILE_ROWS
from tilewright.golden.params.sparamx import STRIP_OUTPUTS, Order, WeightFormat
from tilewright.golden.sparamx import PackedWeights, SparseCache, attend
from tilewright.golden.sparamx.attention import KEY_SPARSITY, VALUE_SPARSITY, prune_cache
from tilewright.kernels.library import (
    CAttention,
    CWeights,
    Path,
    address,
    checked_path,
    checked_threads,
    library,
    weight_bytes,
)
from tilewright.kernels.matrix import Matrix, multiply_all

MOST_QUERIES = 16  # of one head of the cache: the rows of a tile
TAIL_STEP = 256  # tokens by which a tail's memory grows, at least
_TILE = WeightFormat().tile_depth


class Tail:
    """Keys and values of tokens that came later: dense, in the order that the kernels read.

    A token is written to its place once; nothing is packed again.
    """

    _told: int  # tokens that the structures below speak of
    _c_keys: Array[CWeights]
    _c_values: Array[CWeights]

    def __init__(self, heads: int, dim: int):
        self.heads, self.dim, self.tokens, self._room = heads, dim, 0, 0
        self._strips, self._tiles = -(-dim // STRIP_OUTPUTS), -(-dim // _TILE)
        self._keys: NDArray[np.uint16] = np.zeros(0, np.uint16)
        self._values: NDArray[np.uint16] = np.zeros(0, np.uint16)
        self._grow(TAIL_STEP)

    def append(self, keys: NDArray[np.uint16], values: NDArray[np.uint16]) -> None:
        """One or more tokens, (heads, tokens, dim) bf16 patterns."""
        require(
            keys.shape == values.shape and keys.ndim == 3,
            f"keys {keys.shape} and values {values.shape} must both be (heads, tokens, dim)",
        )
        require(
            keys.shape[0] == self.heads and keys.shape[2] == self.dim,
            f"keys {keys.shape} do not fit a tail of {self.heads} heads of {self.dim}",
        )
        while self.tokens + keys.shape[1] > self._room:
            self._grow(self._room + max(TAIL_STEP, self._room))
        for k in range(keys.shape[1]):
            self._put(self.tokens + k, keys[:, k], values[:, k])
        self.tokens += keys.shape[1]

    def keys_and_values(self) -> tuple[NDArray[np.uint16], NDArray[np.uint16]]:
        """Keys and values so far, (heads, tokens, dim) each."""
        keys = self._keys.transpose(0, 1, 4, 2, 3, 5).reshape(self.heads, self._room, -1)
        values = self._values.transpose(0, 2, 3, 5, 1, 4).reshape(self.heads, self._room, -1)
        return keys[:, : self.tokens, : self.dim], values[:, : self.tokens, : self.dim]

    def structures(self) -> tuple[Array[CWeights], Array[CWeights]]:
        """Arrays of structures of keys and values for the kernel; this object keeps them alive."""
        if self._told == self.tokens:
            return self._c_keys, self._c_values
        self._told = self.tokens
        tiles = -(-self.tokens // _TILE)
        for key, value in zip(self._c_keys, self._c_values, strict=True):
            key.strips, key.outputs = -(-self.tokens // STRIP_OUTPUTS), self.tokens
            value.tiles, value.inputs = tiles, self.tokens
        return self._c_keys, self._c_values

    def _put(self, token: int, key: NDArray[np.uint16], value: NDArray[np.uint16]) -> None:
        padded = np.zeros((self.heads, self._tiles * _TILE), np.uint16)
        padded[:, : self.dim] = key
        place = padded.reshape(self.heads, self._tiles, TILE_ROWS, 2)
        strip, lane = divmod(token, STRIP_OUTPUTS)
        self._keys[:, strip, :, :, lane] = place
        padded = np.zeros((self.heads, self._strips * STRIP_OUTPUTS), np.uint16)
        padded[:, : self.dim] = value
        tile, depth = divmod(token, _TILE)
        lanes = padded.reshape(self.heads, self._strips, STRIP_OUTPUTS)
        self._values[:, :, tile, depth // 2, :, depth % 2] = lanes

    def _grow(self, room: int) -> None:
        old_keys, old_values, before = self._keys, self._values, self._room
        keys = (self.heads, room // STRIP_OUTPUTS, self._tiles, TILE_ROWS, STRIP_OUTPUTS, 2)
        values = (self.heads, self._strips, room // _TILE, TILE_ROWS, STRIP_OUTPUTS, 2)
        self._keys, self._values = (
            weight_bytes(2 * int(np.prod(shape))).view(np.uint16).reshape(shape)
            for shape in (keys, values)
        )
        self._room, self._told = room, -1
        if before:
            self._keys[:, : before // STRIP_OUTPUTS] = old_keys
            self._values[:, :, : before // _TILE] = old_values
        # Where each strip begins, in elements from the start of its head.
        key_starts = np.arange(keys[1] + 1, dtype=np.int64) * int(np.prod(keys[2:]))
        value_starts = np.arange(values[1] + 1, dtype=np.int64) * int(np.prod(values[2:]))
        self._starts = np.concatenate([key_starts, value_starts])
        first = address(self._starts)
        self._c_keys = (CWeights * self.heads)(
            *(
                self._dense(self._keys[head], (room, self.dim), self._tiles, first)
                for head in range(self.heads)
            )
        )
        second = first + key_starts.nbytes
        self._c_values = (CWeights * self.heads)(
            *(
                self._dense(self._values[head], (self.dim, room), room // _TILE, second)
                for head in range(self.heads)
            )
        )

    @staticmethod
    def _dense(values: NDArray, shape: tuple[int, int], tiles: int, starts: int) -> CWeights:
        return CWeights(  # of bf16, dense
            outputs=shape[0],
            inputs=shape[1],
            strips=-(-shape[0] // STRIP_OUTPUTS),
            tiles=tiles,
            values=address(values),
            strip_starts=starts,
        )


class Cache:
    """Keys and values of one layer, pruned by magnitude over the layer and packed.

    ``keys`` and ``values`` are (heads, tokens, dim) float32, the heads of one sequence after the
    other where there are several ``sequences``, each pruned by itself. Tokens that come later stay
    dense, in ``tail``: :meth:`append` adds them.
    """

    def __init__(
        self,
        keys: NDArray[np.float32],
        values: NDArray[np.float32],
        *,
        key_sparsity: float = KEY_SPARSITY,
        value_sparsity: float = VALUE_SPARSITY,
        sequences: int = 1,
    ):
        self.heads, self.tokens, self.dim = keys.shape
        require(
            sequences > 0 and self.heads % sequences == 0,
            f"{self.heads} heads cannot be those of {sequences} sequences",
        )
        self._matrices: dict[int, Matrix] = {}
        sparse = key_sparsity > 0 or value_sparsity > 0
        keys_, values_ = (
            np.concatenate([prune_cache(part, share) for part in np.split(all_, sequences)])
            for all_, share in ((keys, key_sparsity), (values, value_sparsity))
        )
        self._cache = self._packed(keys_, values_, sparse=sparse)
        self.tail = Tail(self.heads, self.dim)
        self._c_keys, self._c_values = (
            (CWeights * self.heads)(*(self._matrices[id(part)].c_weights for part in parts))
            for parts in (self._cache.keys, self._cache.values)
        )

    @property
    def size(self) -> int:
        """Bytes that one step reads, without the tail."""
        return sum(m.size for m in (*self._cache.keys, *self._cache.values))

    def append(self, keys: NDArray[np.uint16], values: NDArray[np.uint16]) -> None:
        self.tail.append(keys, values)

    def dense(self) -> tuple[NDArray[np.uint16], NDArray[np.uint16]]:
        """All keys and values, those pruned as zeros, (heads, tokens, dim) bf16 patterns."""
        keys = np.stack([self._matrices[id(part)].unpack() for part in self._cache.keys])
        values = np.stack([self._matrices[id(part)].unpack().T for part in self._cache.values])
        later_keys, later_values = self.tail.keys_and_values()
        return (
            np.concatenate([keys.view(np.uint16), later_keys], axis=1),
            np.concatenate([values.view(np.uint16), later_values], axis=1),
        )

    def attend(
        self,
        queries: NDArray[np.uint16],
        *,
        threads: int | None = None,
        path: Path | None = None,
        order: Order | None = None,
        out: NDArray | None = None,
    ) -> NDArray:
        """(query heads, dim) bf16 patterns to fp32 patterns; see ``golden.sparamx.attend``.

        ``out`` receives the result where given; as uint16 it receives bf16 patterns. By default the
        order is ``Order.TILE`` where there is AMX and a head of the cache has at most 16 queries,
        and ``Order.VECTOR`` elsewhere.
        """
        path, threads = checked_path(path), checked_threads(threads)
        require(
            queries.ndim == 2
            and queries.shape[1] == self.dim
            and len(queries) > 0
            and len(queries) % self.heads == 0,
            f"queries {queries.shape} do not fall into {self.heads} groups of heads of {self.dim}",
        )
        require(queries.dtype == np.uint16, f"bf16 queries are uint16 here, not {queries.dtype}")
        rows = len(queries) // self.heads
        if order is None:
            fits = path is Path.AMX and rows <= MOST_QUERIES
            order = Order.TILE if fits else Order.VECTOR
        if out is None:
            out = np.empty(queries.shape, np.uint32)
        require(
            out.shape == queries.shape
            and out.dtype in (np.uint32, np.float32, np.uint16)
            and out.flags.c_contiguous
            and out.flags.writeable,
            f"out must be a contiguous array of fp32 or bf16 of {queries.shape}",
        )
        if order is Order.TILE and rows <= MOST_QUERIES and path is not Path.AVX512:
            self._attend(np.ascontiguousarray(queries), rows, out, threads, path)
            return out
        result = self._attend_by_products(queries, threads, path, order)
        if out.dtype == np.uint16:
            bits = result.astype(np.uint64)
            out[...] = (bits + 0x7FFF + (bits >> np.uint64(16) & np.uint64(1))) >> np.uint64(16)
        else:
            out.view(np.uint32)[...] = result
        return out

    def _attend(
        self, queries: NDArray[np.uint16], rows: int, out: NDArray, threads: int, path: Path
    ) -> None:
        tail_keys, tail_values = self.tail.structures()
        call = CAttention(
            keys=addressof(self._c_keys),
            values=addressof(self._c_values),
            tail_keys=addressof(tail_keys),
            tail_values=addressof(tail_values),
            heads=self.heads,
            rows=rows,
            dim=self.dim,
            tokens=self.tokens,
            tail_tokens=self.tail.tokens,
            queries=address(queries),
            out=address(out),
            out_bf16=out.dtype == np.uint16,
            threads=threads,
            path=path,
        )
        library().tw_attend(addressof(call))

    def _attend_by_products(
        self, queries: NDArray[np.uint16], threads: int, path: Path, order: Order
    ) -> NDArray[np.uint32]:
        tail = None
        if self.tail.tokens:
            tail = self._packed(*self.tail.keys_and_values(), sparse=False)

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
