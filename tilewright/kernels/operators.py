"""Operators of PyTorch on the kernels: linear layers, norms and rotary positions; extra ``torch``.

Each is registered with ``torch.library`` and has a form for shapes alone, so that ``torch.compile``
and ``torch.export`` see one operator and no Python in it. Called directly, as a model in eager
mode does, a layer skips the dispatcher: at batch 1 no tensor is copied on the way to a kernel.
"""

# Annotations stay text, so that the documentation can be built where PyTorch is not installed.
from __future__ import annotations

from ctypes import addressof
from typing import Any

import torch
from torch import Tensor
from torch.utils.weak import WeakIdKeyDictionary

from tilewright.kernels.forms import PARTS, family, matrix_of
from tilewright.kernels.library import CCall, CProduct, available_paths, default_threads, library
from tilewright.kernels.matrix import ORDERS, Multiplier


class Prepared:
    """A packed matrix with its bias and scales, described to the kernels once."""

    def __init__(self, matrix: Multiplier, scales: Tensor | None, bias: Tensor | None, gated: bool):
        self.matrix, self.path = matrix, available_paths()[-1]
        self.outputs, self.inputs = matrix.shape
        self.columns = self.outputs // 2 if gated else self.outputs
        if gated and self.outputs % 32:
            raise ValueError(f"gates and values need a multiple of 32 outputs, not {self.outputs}")
        # Kept alive here, since the description has their addresses only.
        self.bias, self.scales = (
            None if t is None else t.detach().to(torch.float32).contiguous() for t in (bias, scales)
        )
        template = CProduct.from_buffer_copy(matrix.product)
        template.bias = None if self.bias is None else self.bias.data_ptr()
        template.scales = None if self.scales is None else self.scales.data_ptr()
        template.x_pitch, template.y_pitch = 2 * self.inputs, self.columns
        template.y_bf16, template.gated = 1, gated
        self.template = template

    def multiply(self, x: Tensor, threads: int | None = None) -> Tensor:
        """The last dimension of ``x`` times the weights, in the type of ``x``."""
        if x.shape[-1] != self.inputs:
            raise ValueError(f"{x.shape[-1]} inputs for a layer of {self.inputs}")
        rows = x if x.dtype is torch.bfloat16 else x.to(torch.bfloat16)
        rows = rows.contiguous()
        y = rows.new_empty((*x.shape[:-1], self.columns))
        batch = rows.numel() // self.inputs
        if batch:
            self._run(rows.data_ptr(), y.data_ptr(), batch, threads or default_threads())
        return y if x.dtype is torch.bfloat16 else y.to(x.dtype)

    def _run(self, x: int, y: int, batch: int, threads: int) -> None:
        # A description of its own for every call: threads may use one layer at once.
        product = CProduct.from_buffer_copy(self.template)
        product.x, product.y, product.batch = x, y, batch
        order = ORDERS[self.matrix.default_order(batch, self.path)]
        bounds = self.matrix.bounds_address(threads)
        call = CCall(addressof(product), 1, bounds, threads, self.path, order)
        library().tw_multiply(addressof(call))


def _bytes(tensor: Tensor) -> Any:
    """The memory of a tensor of bytes as an array, by an alias that does not keep it alive."""
    return tensor.detach().numpy()


# By the tensor that holds the nonzero values; an entry goes when that tensor does.
_prepared: WeakIdKeyDictionary = WeakIdKeyDictionary()


@torch.library.custom_op("tilewright::linear", mutates_args=())
def linear(
    x: Tensor,
    parts: list[Tensor],
    form: str,
    outputs: int,
    scales: Tensor | None,
    bias: Tensor | None,
    gated: bool,
) -> Tensor:
    """``x`` times a packed matrix; ``parts`` are its arrays, in the order of their form.

    ``gated``: outputs are gates and values in turn, 16 of each; returns silu(gate) * value.
    """
    key = parts[-1]
    found = _prepared.get(key)
    if found is None or found.outputs != outputs:
        arrays = dict(zip(PARTS[family(form)], map(_bytes, parts), strict=True))
        matrix = matrix_of(form, (outputs, x.shape[-1]), arrays)
        found = _prepared[key] = Prepared(matrix, scales, bias, gated)
    return found.multiply(x)


@linear.register_fake
def _(x: Tensor, parts: Any, form: str, outputs: int, *rest: Any) -> Tensor:
    gated = rest[-1]
    return x.new_empty((*x.shape[:-1], outputs // 2 if gated else outputs))


def _is_bf16(*tensors: Tensor) -> bool:
    return all(t.dtype is torch.bfloat16 for t in tensors)


@torch.library.custom_op("tilewright::rms_norm", mutates_args=())
def rms_norm(x: Tensor, weight: Tensor, epsilon: float) -> Tensor:
    """``x`` over its root mean square along the last dimension, times ``weight``."""
    return norm(x, weight, epsilon)


rms_norm.register_fake(lambda x, weight, epsilon: torch.empty_like(x))


def norm(x: Tensor, weight: Tensor, epsilon: float) -> Tensor:
    """:func:`rms_norm` without the dispatcher."""
    if not _is_bf16(x, weight):
        wide = x.to(torch.float32)
        scaled = wide * torch.rsqrt(wide.pow(2).mean(-1, keepdim=True) + epsilon)
        return weight * scaled.to(x.dtype)
    x, weight = x.contiguous(), weight.contiguous()
    y, length = torch.empty_like(x), x.shape[-1]
    library().tw_norm(
        *(x.data_ptr(), weight.data_ptr(), y.data_ptr(), x.numel() // length, length),
        *(epsilon, default_threads()),
    )
    return y


@torch.library.custom_op("tilewright::rotate_", mutates_args=("x",))
def rotate_(x: Tensor, cosines: Tensor, sines: Tensor, heads: int) -> None:
    """Turn the first ``heads`` heads of every token by its angles, in place.

    ``x`` is (batch, tokens, features), contiguous; angles are (batch or 1, tokens, head size).
    """
    turn_(x, cosines, sines, heads)


rotate_.register_fake(lambda x, cosines, sines, heads: None)


def turn_(x: Tensor, cosines: Tensor, sines: Tensor, heads: int) -> None:
    """:func:`rotate_` without the dispatcher."""
    batch, tokens, features = x.shape
    dim = cosines.shape[-1]
    if not _is_bf16(x, cosines, sines):
        part = x[..., : heads * dim].view(batch, tokens, heads, dim)
        first, second = part.chunk(2, dim=-1)
        turned = torch.cat((-second, first), dim=-1)
        part.copy_(part * cosines.unsqueeze(2) + turned * sines.unsqueeze(2))
        return
    cosines, sines = angles_of((cosines, sines), batch)
    library().tw_rotate(
        *(x.data_ptr(), cosines.data_ptr(), sines.data_ptr(), batch * tokens, tokens),
        *(heads, 0, dim, features, None, None, 0, 0, default_threads()),
    )


def angles_of(angles: tuple[Tensor, Tensor], batch: int) -> tuple[Tensor, Tensor]:
    """Cosines and sines of every token of every sequence."""
    cosines, sines = (t.expand(batch, *t.shape[1:]).contiguous() for t in angles)
    return cosines, sines


ROOM = 256  # tokens by which a cache's memory grows, at least


def grow(cached: Tensor, tokens: int) -> Tensor:
    """Room for more tokens after (batch, heads, tokens, dim), at least twice as many as before."""
    batch, heads, before, dim = cached.shape
    wanted = max(2 * before, before + tokens + ROOM)
    room = cached.new_empty(batch, heads, wanted, dim)
    room[:, :, :before] = cached
    return room


def turn_into_cache(
    x: Tensor, cosines: Tensor, sines: Tensor, rooms: tuple[Tensor, Tensor], position: int
) -> None:
    """Turn queries in place, and keys into their place in the cache, with their values.

    ``x`` is (batch, tokens, features) of bf16; ``rooms`` of keys and of values are (batch, heads,
    room, dim), where tokens before ``position`` are.
    """
    batch, tokens, features = x.shape
    keys, values = rooms
    heads, room, dim = keys.shape[1:]
    queries = features // dim - 2 * heads
    cosines, sines = angles_of((cosines, sines), batch)
    library().tw_rotate(
        *(x.data_ptr(), cosines.data_ptr(), sines.data_ptr(), batch * tokens, tokens),
        *(queries, heads, dim, features, keys.data_ptr(), values.data_ptr(), room, position),
        default_threads(),
    )
