"""Copies of one layer that multiply in turn, as contestants of a race."""

from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager, nullcontext
from copy import deepcopy
from dataclasses import replace
from functools import lru_cache, partial
from typing import TYPE_CHECKING, TypeVar

import numpy as np
from numpy.typing import NDArray

from benchmarks.race import Call, Contestant
from tilewright.golden.params.sparamx import Order
from tilewright.kernels.attention import Cache
from tilewright.kernels.compressed import CodedMatrix, DecaMatrix
from tilewright.kernels.library import address, library, weight_bytes
from tilewright.kernels.matrix import Matrix

if TYPE_CHECKING:
    import torch

SEED = 9
# After a turn. Threads of ours spin for 0.1 ms before they sleep, those of PyTorch for some 20 ms.
REST, STOCK_REST = 0.002, 0.05

Packed = TypeVar("Packed", Matrix, DecaMatrix, CodedMatrix)


def copies_of(first: Packed, working_set: int) -> list[Packed]:
    copies = [first]
    while len(copies) * first.size < working_set:
        copies.append(deepcopy(first))
    return copies


def _entry(
    calls: Sequence[Call],
    size: int,
    rest: float = REST,
    around: Callable[[], AbstractContextManager[object]] = nullcontext,
) -> Contestant:
    """Contestant warmed up by its last tenth, which is out of the caches by its turn."""
    return Contestant(calls, size, calls[-max(1, len(calls) // 10) :], rest, around)


def matrices(
    copies: Sequence[Matrix | DecaMatrix | CodedMatrix],
    batch: int,
    threads: int,
    order: Order | None = None,
) -> Contestant:
    rng, (outputs, inputs) = np.random.default_rng(SEED), copies[0].shape
    if copies[0].result_dtype == np.int32:
        x: NDArray = rng.integers(-127, 128, (batch, inputs), np.int8)
        out: NDArray = np.empty((batch, outputs), np.int32)
    else:
        x = bf16_of(rng.standard_normal((batch, inputs), np.float32))
        out = np.empty((batch, outputs), np.uint16)  # bf16, as stock PyTorch gives
    calls = [matrix.bind(x, out, threads=threads, order=order) for matrix in copies]
    return _entry(calls, copies[0].size)


def attention(copies: Sequence[Cache], queries: int, threads: int) -> Contestant:
    first = copies[0]
    rng = np.random.default_rng(SEED)
    x = bf16_of(rng.standard_normal((first.heads * queries, first.dim), np.float32))
    out = np.empty(x.shape, np.uint16)
    return _entry([partial(c.attend, x, threads=threads, out=out) for c in copies], first.size)


@lru_cache(maxsize=1)
def _area(size: int) -> NDArray[np.uint8]:
    area = weight_bytes(size)
    area[::4096] = 1  # pages of their own, not all the one page of zeros
    return area


def reading(size: int, threads: int) -> Contestant:
    read, start, tail = library().tw_read, address(_area(size)), size // 10
    warm = partial(read, start + size - tail, tail, threads)
    return Contestant([partial(read, start, size, threads)], size, [warm], REST)


# --- PyTorch, where it is installed


def _torch_with(threads: int) -> AbstractContextManager[object]:
    import torch

    torch.set_num_threads(threads)
    return torch.inference_mode()


def stock_copies(weights: NDArray[np.uint16], working_set: int) -> "list[torch.Tensor]":
    """The layer as tensors of PyTorch; none where that is not installed."""
    try:
        import torch
    except ImportError:
        return []
    tensor = torch.from_numpy(weights.view(np.int16)).view(torch.bfloat16)
    return [tensor.clone() for _ in range(-(-working_set // weights.nbytes))]


def _stock(calls: Sequence[Call], size: int, threads: int) -> Contestant:
    return _entry(calls, size, STOCK_REST, partial(_torch_with, threads))


def stock(copies: "Sequence[torch.Tensor]", batch: int, threads: int) -> Contestant:
    import torch

    x = torch.randn(batch, copies[0].shape[1], dtype=torch.bfloat16)
    calls = [partial(torch.nn.functional.linear, x, weight) for weight in copies]
    return _stock(calls, 2 * copies[0].numel(), threads)


def stock_attention(
    shape: tuple[int, int, int, int], working_set: int, threads: int
) -> Contestant | None:
    """PyTorch's attention over dense caches; None where that is not installed."""
    try:
        import torch
    except ImportError:
        return None
    heads, queries, tokens, dim = shape
    size = 4 * heads * tokens * dim
    query = torch.randn(1, heads * queries, 1, dim, dtype=torch.bfloat16)
    attend = partial(torch.nn.functional.scaled_dot_product_attention, query, enable_gqa=True)
    calls = []
    for _ in range(-(-working_set // size)):
        keys, values = (torch.randn(1, heads, tokens, dim).bfloat16() for _ in range(2))
        calls.append(partial(attend, key=keys, value=values))
    return _stock(calls, size, threads)


def operator(count: int, threads: int) -> Contestant:
    """A small operator of PyTorch that wakes its threads, as between the layers of a model."""
    import torch

    call = partial(torch.nn.functional.silu, torch.randn(1 << 16))
    return Contestant([call] * count, around=partial(_torch_with, threads))


def in_model(contestant: Contestant, threads: int) -> Contestant:
    """The same calls, each followed by a small operator, with no rest between."""
    (between,) = operator(1, threads).calls

    def both(call: Call) -> None:
        call()
        between()

    calls = [partial(both, call) for call in contestant.calls]
    entry = _entry(calls, contestant.size, around=partial(_torch_with, threads))
    return replace(entry, rest=0.0)


# --- weights


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
    return np.where(weights & 0x7FFF, (weights & 0x7F | 1).astype(np.int8), np.int8(0))
