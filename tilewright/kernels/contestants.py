"""What takes part in a race of the bench: copies of one layer that multiply in turn.

There are so many copies that no weight is still in a cache when its turn comes again.
"""

from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager, nullcontext
from copy import copy
from functools import lru_cache, partial
from typing import TYPE_CHECKING, Protocol, TypeVar

import numpy as np
from numpy.typing import NDArray

from tilewright.golden.params.sparamx import Order, WeightFormat
from tilewright.kernels.attention import Cache
from tilewright.kernels.coded import CodedMatrix
from tilewright.kernels.deca import DecaMatrix
from tilewright.kernels.library import library
from tilewright.kernels.matrix import Matrix
from tilewright.kernels.memory import address, weight_bytes
from tilewright.kernels.plan import Plan

if TYPE_CHECKING:
    import torch

__all__ = [
    *("SEED", "Attention", "Contestant", "InModel", "Operator", "Ours", "Read", "Stock"),
    *("OneDnn", "StockAttention", "Sweep", "attention_copies", "onednn_of", "stock_attention"),
    *("bf16_of", "copies_of", "int8_of", "pack_copies", "random_weights", "stock_copies"),
]

SEED = 9
# After a contestant: how long its threads may spin before they sleep. Ours stop after 0.1 ms, the
# OpenMP threads of PyTorch after some 20 ms.
SETTLE_SECONDS, STOCK_SETTLE_SECONDS = 0.002, 0.05

MatrixT = TypeVar("MatrixT", Matrix, DecaMatrix, CodedMatrix)
Call = Callable[[], object]


class Sweep(Protocol):
    """One multiplication with every copy; a warm sweep goes over the last few copies only."""

    def __call__(self, warm: bool = False) -> None: ...


def _few(copies: Sequence[object]) -> int:
    """The last tenth: by the time a sweep comes to them they have left the caches again."""
    return max(1, len(copies) // 10)


class Contestant:
    """Copies of one layer that multiply in turn."""

    size: int  # bytes of one copy that a multiplication reads
    count: int
    settle = SETTLE_SECONDS

    def calls(self, batch: int) -> list[Call]:
        """One multiplication with each copy."""
        raise NotImplementedError

    def around(self) -> AbstractContextManager[object]:
        """What a sweep's calls need around them."""
        return nullcontext()

    def prepare(self, batch: int) -> Sweep:
        """Make a sweep over all copies; a warm one wakes what sleeps."""
        calls = self.calls(batch)

        def sweep(warm: bool = False) -> None:
            with self.around():
                for call in calls[-_few(calls) :] if warm else calls:
                    call()

        return sweep

    def with_threads(self, threads: int) -> "Contestant":
        """The same copies on another number of threads."""
        raise NotImplementedError

    def with_order(self, order: Order) -> "Contestant":
        """The same copies multiplied in another order."""
        raise NotImplementedError


class Ours(Contestant):
    """Copies of a packed, compressed or coded matrix."""

    def __init__(
        self,
        copies: Sequence[Matrix | DecaMatrix | CodedMatrix],
        threads: int,
        order: Order | None = None,
    ):
        self.copies, self.threads, self.order = copies, threads, order
        self.size, self.count = copies[0].size, len(copies)

    def calls(self, batch: int) -> list[Call]:
        first = self.copies[0]
        rng = np.random.default_rng(SEED)
        inputs, outputs = first.shape[1], first.shape[0]
        if first.result_dtype == np.int32:
            x = rng.integers(-127, 128, (batch, inputs), np.int8)
            out = np.empty((batch, outputs), np.int32)
        else:
            x = bf16_of(rng.standard_normal((batch, inputs), np.float32))
            out = np.empty((batch, outputs), np.uint16)  # bf16, as stock PyTorch gives
        return [
            matrix.bind(x, out, threads=self.threads, order=self.order) for matrix in self.copies
        ]

    def with_threads(self, threads: int) -> "Ours":
        return Ours(self.copies, threads, self.order)

    def with_order(self, order: Order) -> "Ours":
        return Ours(self.copies, self.threads, order)


class Attention(Contestant):
    """One token's attention over caches of one layer each: scores, softmax, values."""

    def __init__(self, copies: Sequence[Cache], threads: int):
        self.copies, self.threads = copies, threads
        self.size, self.count = copies[0].size, len(copies)

    def calls(self, batch: int) -> list[Call]:
        first = self.copies[0]
        values = np.random.default_rng(SEED).standard_normal(
            (first.heads * batch, first.dim), np.float32
        )
        queries, out = bf16_of(values), np.empty(values.shape, np.uint16)
        return [
            partial(cache.attend, queries, threads=self.threads, out=out) for cache in self.copies
        ]


class StockAttention(Contestant):
    """PyTorch's scaled_dot_product_attention over dense caches."""

    settle = STOCK_SETTLE_SECONDS

    def __init__(self, copies: "Sequence[tuple[torch.Tensor, torch.Tensor]]", threads: int):
        self.copies, self.threads = copies, threads
        self.size, self.count = 4 * copies[0][0].numel(), len(copies)

    def around(self) -> AbstractContextManager[object]:
        return _torch_with(self.threads)

    def calls(self, batch: int) -> list[Call]:
        import torch

        _, heads, _, dim = self.copies[0][0].shape
        query = torch.randn(1, heads * batch, 1, dim, dtype=torch.bfloat16)
        attention = torch.nn.functional.scaled_dot_product_attention
        return [partial(attention, query, *pair, enable_gqa=True) for pair in self.copies]


class Operator(Contestant):
    """A small operator of PyTorch that wakes its threads: what stands between layers of a model."""

    def __init__(self, count: int, threads: int):
        self.size, self.count, self.threads = 1, count, threads

    def around(self) -> AbstractContextManager[object]:
        return _torch_with(self.threads)

    def calls(self, batch: int) -> list[Call]:
        import torch

        return [partial(torch.nn.functional.silu, torch.randn(1 << 16))] * self.count


class InModel(Contestant):
    """A contestant whose every call is followed by a small operator, with no rest between."""

    settle = 0.0

    def __init__(self, inner: Contestant, threads: int):
        self.inner, self.threads = inner, threads
        self.size, self.count = inner.size, inner.count

    def around(self) -> AbstractContextManager[object]:
        return _torch_with(self.threads)

    def calls(self, batch: int) -> list[Call]:
        between = Operator(1, self.threads).calls(batch)[0]

        def both(call: Call) -> None:
            call()
            between()

        return [partial(both, call) for call in self.inner.calls(batch)]


def _torch_with(threads: int) -> AbstractContextManager[object]:
    import torch

    torch.set_num_threads(threads)
    return torch.inference_mode()


class Read(Contestant):
    """Nothing but reading the memory."""

    def __init__(self, size: int, threads: int):
        self.size, self.count, self.threads = size, 1, threads
        self.area = weight_bytes(size)
        self.area[::4096] = 1  # pages of their own, not all the one page of zeros

    def prepare(self, batch: int) -> Sweep:
        read, start = library().tw_read, address(self.area)

        def sweep(warm: bool = False) -> None:
            skip = self.size - self.size // 10 if warm else 0
            read(start + skip, self.size - skip, self.threads)

        return sweep

    def with_threads(self, threads: int) -> "Read":
        twin = copy(self)
        twin.threads = threads
        return twin


class Stock(Contestant):
    """torch.nn.functional.linear of bf16 tensors."""

    settle = STOCK_SETTLE_SECONDS

    def __init__(self, copies: "Sequence[torch.Tensor]", threads: int):
        self.copies, self.threads = copies, threads
        self.size, self.count = 2 * copies[0].numel(), len(copies)

    def around(self) -> AbstractContextManager[object]:
        return _torch_with(self.threads)

    def calls(self, batch: int) -> list[Call]:
        import torch

        x = torch.randn(batch, self.copies[0].shape[1], dtype=torch.bfloat16)
        return [partial(torch.nn.functional.linear, x, weight) for weight in self.copies]

    def with_threads(self, threads: int) -> "Stock":
        return Stock(self.copies, threads)


class OneDnn(Stock):
    """The same layer by oneDNN, its weights reordered as it wants them, as in frozen graphs."""

    def calls(self, batch: int) -> list[Call]:
        import torch

        x = torch.randn(batch, self.copies[0].shape[1], dtype=torch.bfloat16)
        with torch.inference_mode(False), torch.no_grad():
            packed = [
                torch.ops.mkldnn._reorder_linear_weight(weight.to_mkldnn(), batch)
                for weight in self.copies
            ]
        multiply = torch.ops.mkldnn._linear_pointwise
        return [partial(multiply, x, weight, None, "none", [], "") for weight in packed]


def onednn_of(stock: Stock | None) -> OneDnn | None:
    """oneDNN on the tensors of stock PyTorch; None where it is not part of that."""
    if stock is None:
        return None
    found = OneDnn(stock.copies, stock.threads)
    try:
        OneDnn(stock.copies[:1], stock.threads).calls(1)[0]()
    except (AttributeError, RuntimeError, NotImplementedError):
        return None  # a PyTorch without it, or with other names
    return found


def pack_copies(plan: Plan, fmt: WeightFormat, weights: NDArray, threads: int) -> Ours:
    """As many copies of a packed layer as the plan's working set asks for."""
    return Ours(copies_of(plan, Matrix.pack(fmt, weights)), threads)


def copies_of(plan: Plan, matrix: MatrixT) -> list[MatrixT]:
    """A matrix and its copies, as many as the plan's working set asks for."""
    copies = [matrix]
    while len(copies) * matrix.size < plan.working_set:
        copies.append(matrix.copy())
    return copies


def stock_copies(plan: Plan, weights: NDArray[np.uint16], threads: int) -> Stock | None:
    """The same layer for stock PyTorch; None where that is not installed."""
    try:
        import torch
    except ImportError:
        return None
    count = -(-plan.working_set // weights.nbytes)
    tensor = torch.from_numpy(weights.view(np.int16)).view(torch.bfloat16)
    return Stock([tensor.clone() for _ in range(count)], threads)


def attention_copies(plan: Plan, threads: int, sparsity: tuple[float, float]) -> Attention:
    """Caches of one layer with these shares of keys and values zero."""
    heads, _, tokens, dim = plan.cache
    rng = np.random.default_rng(SEED)
    keys, values = rng.standard_normal((2, heads, tokens, dim), np.float32)
    first = Cache(keys, values, key_sparsity=sparsity[0], value_sparsity=sparsity[1])
    return Attention(
        [first, *(first.copy() for _ in range(-(-plan.working_set // first.size) - 1))], threads
    )


def stock_attention(plan: Plan, threads: int) -> StockAttention | None:
    """Dense caches for stock PyTorch; None where that is not installed."""
    try:
        import torch
    except ImportError:
        return None
    heads, _, tokens, dim = plan.cache
    count = -(-plan.working_set // (4 * heads * tokens * dim))
    make = lambda: torch.randn(1, heads, tokens, dim).to(torch.bfloat16)  # noqa: E731
    return StockAttention([(make(), make()) for _ in range(count)], threads)


def random_weights(shape: tuple[int, int], sparsity: float) -> NDArray[np.uint16]:
    """Weights (outputs, inputs) as bf16 patterns, of which the given share is zero."""
    values, chances = _random(shape)
    return np.where(chances < np.float32(sparsity), np.uint16(0), values)


@lru_cache(maxsize=1)  # one layer at many sparsities
def _random(shape: tuple[int, int]) -> tuple[NDArray[np.uint16], NDArray[np.float32]]:
    """Weights (outputs, inputs) other than zero, and numbers that decide which become zero."""
    rng = np.random.default_rng(SEED)
    values = rng.standard_normal((shape[1], shape[0]), np.float32)
    values[np.abs(values) < 1e-3] = 1e-3
    return bf16_of(values), rng.random(values.shape, np.float32)


def bf16_of(values: NDArray[np.float32]) -> NDArray[np.uint16]:
    """Truncate to bf16, which is as good as rounding where only speed is measured."""
    return (values.view(np.uint32) >> 16).astype(np.uint16)


def int8_of(weights: NDArray[np.uint16]) -> NDArray[np.int8]:
    """Weights of int8 that are zero exactly where the given ones are."""
    return np.where(weights & 0x7FFF, (weights & 0x7F | 1).astype(np.int8), np.int8(0))
