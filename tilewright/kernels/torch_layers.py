"""Sparse linear layers and caches inside a PyTorch model; needs the optional extra ``torch``.

For inference: nothing here computes gradients. Numbers are those of the kernels: bf16 operands,
fp32 sums in the order of ``tilewright.golden.sparamx``, the bias added in fp32, one rounding to
bf16.
"""

# Annotations stay text, so that the documentation can be built where PyTorch is not installed.
from __future__ import annotations

import warnings
from collections.abc import Collection
from typing import Any, TypeVar

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from tilewright.golden.params.sparamx import ElementType, WeightFormat
from tilewright.golden.sparamx import PackedWeights
from tilewright.golden.sparamx.attention import KEY_SPARSITY, VALUE_SPARSITY
from tilewright.golden.sparamx.packed import DTYPES, strip_starts
from tilewright.kernels.attention import Cache
from tilewright.kernels.matrix import Matrix

Model = TypeVar("Model", bound=nn.Module)


def sparsify(
    model: Model,
    sparsity: float = 0.5,
    *,
    element: str = "bf16",
    threads: int | None = None,
    skip: Collection[str] = (),
) -> Model:
    """Replace every linear layer of ``model`` in place by a sparse one; returns ``model``.

    Of each layer the ``sparsity`` share of weights of least magnitude becomes zero; weights that
    are zero already count. ``element`` is "bf16", or "int8" with one scale per output and
    activations quantised row by row. Layers named in ``skip`` stay; one that cannot be replaced
    stays too, with a warning that says why.
    """
    if not 0 <= sparsity <= 1:
        raise ValueError(f"sparsity must be 0..1, not {sparsity!r}")
    kind = ElementType(element)
    replaced = 0
    for name, parent, key, layer in _linear_layers(model):
        if name in skip:
            continue
        try:
            new = SparseLinear.of(layer, sparsity, kind, threads)
        except (ValueError, TypeError) as error:
            warnings.warn(f"{name} stays dense: {error}", stacklevel=2)
            continue
        setattr(parent, key, new)
        replaced += 1
    if not replaced:
        warnings.warn("no linear layer was replaced", stacklevel=2)
    return model


def _linear_layers(model: nn.Module) -> list[tuple[str, nn.Module, str, nn.Linear]]:
    found = []
    for prefix, parent in model.named_modules():
        for key, child in parent.named_children():
            if isinstance(child, nn.Linear):
                found.append((f"{prefix}.{key}" if prefix else key, parent, key, child))
    return found


class SparseLinear(nn.Module):
    """A linear layer whose weights are packed; its state is the packed form."""

    def __init__(
        self,
        matrix: Matrix,
        scales: Tensor | None,
        bias: Tensor | None,
        threads: int | None = None,
    ):
        super().__init__()
        self.threads = threads
        self._matrix, self._scales = matrix, scales
        self._bias = None if bias is None else bias.detach().to(torch.float32).contiguous()

    @classmethod
    def of(
        cls, layer: nn.Linear, sparsity: float, element: ElementType, threads: int | None = None
    ) -> SparseLinear:
        """The pruned and packed form of ``layer``; a ValueError says why there is none."""
        if type(layer) is not nn.Linear:
            raise ValueError(f"a {type(layer).__name__} may do more than multiply")
        weight = layer.weight.detach()
        if weight.device.type != "cpu":
            raise ValueError(f"its weights are on {weight.device}, not on the CPU")
        if not weight.dtype.is_floating_point:
            raise ValueError(f"its weights are {weight.dtype}")
        weight = prune(weight.to(torch.float32), sparsity)
        bias = None if layer.bias is None else layer.bias
        if element is ElementType.BF16:
            matrix = Matrix.pack(WeightFormat(), _numpy_bits(weight.to(torch.bfloat16)))
            return cls(matrix, None, bias, threads)
        if not torch.isfinite(weight).all():
            raise ValueError("a weight is NaN or infinite")
        scales = weight.abs().amax(dim=1).clamp_min(torch.finfo(torch.float32).tiny) / 127
        quantised = torch.round(weight / scales[:, None]).to(torch.int8)
        matrix = Matrix.pack(WeightFormat(element=ElementType.INT8), quantised.numpy())
        return cls(matrix, scales, bias, threads)

    @property
    def in_features(self) -> int:
        """Number of inputs."""
        return self._matrix.shape[1]

    @property
    def out_features(self) -> int:
        """Number of outputs."""
        return self._matrix.shape[0]

    def dense_weight(self) -> Tensor:
        """The weights that the layer multiplies with, as a dense tensor."""
        weights = self._matrix.unpack()
        if self._scales is None:
            return torch.from_numpy(weights.view(np.int16)).view(torch.bfloat16)
        return torch.from_numpy(weights).to(torch.float32) * self._scales[:, None]

    @torch.no_grad()
    def forward(self, x: Tensor) -> Tensor:
        """Multiply the last dimension of ``x`` by the weights."""
        rows = x.reshape(-1, x.shape[-1])
        y = self._floats(rows) if self._scales is None else self._integers(rows, self._scales)
        return y.to(x.dtype).reshape(*x.shape[:-1], self.out_features)

    def _floats(self, rows: Tensor) -> Tensor:
        out = torch.empty(len(rows), self.out_features, dtype=torch.bfloat16)
        bias = None if self._bias is None else self._bias.numpy()
        self._matrix.multiply(
            _numpy_bits(rows.to(torch.bfloat16)),
            threads=self.threads,
            bias=bias,
            out=out.view(torch.int16).numpy().view(np.uint16),
        )
        return out

    def _integers(self, rows: Tensor, scales: Tensor) -> Tensor:
        rows = rows.to(torch.float32)
        steps = rows.abs().amax(dim=1, keepdim=True).clamp_min(1e-30) / 127
        quantised = torch.round(rows / steps).to(torch.int8).contiguous()
        sums = torch.from_numpy(self._matrix.multiply(quantised.numpy(), threads=self.threads))
        y = sums.to(torch.float32) * (steps * scales)
        return y if self._bias is None else y + self._bias

    def extra_repr(self) -> str:
        """Shape, type and share of zeros, for ``print(model)``."""
        zeros = 1 - len(self._matrix.packed.values) / np.prod(self._matrix.shape)
        return (
            f"in_features={self.in_features}, out_features={self.out_features},"
            f" element={self._matrix.format.element.value}, zeros={max(zeros, 0):.1%}"
        )

    # The packed arrays change their length with the weights, which buffers may not: they are kept
    # as extra state, which is saved and loaded with the model like any other.

    def get_extra_state(self) -> dict[str, Any]:
        """The packed weights, for ``state_dict``."""
        packed = self._matrix.packed
        signed = packed.values.view(np.int16 if packed.values.itemsize == 2 else np.int8)
        return {
            "element": packed.format.element.value,
            "shape": list(packed.shape),
            "metadata": torch.from_numpy(packed.metadata.copy()),
            "values": torch.from_numpy(signed.copy()),
            "scales": self._scales,
            "bias": self._bias,
        }

    def set_extra_state(self, state: dict[str, Any]) -> None:
        """Take over packed weights; arrays that contradict each other are refused."""
        fmt = WeightFormat(element=ElementType(state["element"]))
        outputs, inputs = state["shape"]
        if (outputs, inputs) != self._matrix.shape:
            raise ValueError(
                f"weights of {outputs} outputs and {inputs} inputs"
                f" for a layer of {self._matrix.shape}"
            )
        metadata = state["metadata"].numpy()
        values = state["values"].numpy().view(DTYPES[fmt.element])
        starts = strip_starts(fmt, metadata)
        self._matrix = Matrix(PackedWeights(fmt, (outputs, inputs), metadata, values, starts))
        self._scales, self._bias = state["scales"], state["bias"]


def prune(weight: Tensor, sparsity: float) -> Tensor:
    """``weight`` with the given share of its values, those of least magnitude, set to zero."""
    count = round(sparsity * weight.numel())
    if count == 0:
        return weight
    order = torch.argsort(weight.abs().reshape(-1), stable=True)
    pruned = weight.reshape(-1).clone()
    pruned[order[:count]] = 0
    return pruned.reshape(weight.shape)


class SparseKVCache:
    """Keys and values of a prompt, pruned and packed; tokens that follow stay dense.

    One entry per layer: tensors (heads, tokens, dim). Pruning is by magnitude over a layer.
    """

    def __init__(
        self,
        keys: list[Tensor],
        values: list[Tensor],
        *,
        key_sparsity: float = KEY_SPARSITY,
        value_sparsity: float = VALUE_SPARSITY,
        threads: int | None = None,
    ):
        if len(keys) != len(values):
            raise ValueError(f"keys of {len(keys)} layers and values of {len(values)}")
        self.threads = threads
        self._layers = [
            Cache(
                k.to(torch.float32).numpy(),
                v.to(torch.float32).numpy(),
                key_sparsity=key_sparsity,
                value_sparsity=value_sparsity,
            )
            for k, v in zip(keys, values, strict=True)
        ]
        self._tails: list[tuple[Tensor, Tensor] | None] = [None] * len(keys)

    def append(self, layer: int, key: Tensor, value: Tensor) -> None:
        """One or more new tokens of a layer, (heads, tokens, dim)."""
        new = (key.to(torch.bfloat16), value.to(torch.bfloat16))
        tail = self._tails[layer]
        if tail is not None:
            new = (torch.cat([tail[0], new[0]], dim=1), torch.cat([tail[1], new[1]], dim=1))
        self._tails[layer] = new

    def attend(self, layer: int, query: Tensor) -> Tensor:
        """(query heads, dim) -> the same: softmax(q k / sqrt(dim)) v over prompt and tail."""
        tail = self._tails[layer]
        extra = () if tail is None else tuple(_numpy_bits(part) for part in tail)
        bits = _numpy_bits(query.to(torch.bfloat16))
        result = self._layers[layer].attend(bits, *extra, threads=self.threads)
        return torch.from_numpy(result.view(np.float32)).to(query.dtype)


def _numpy_bits(tensor: Tensor) -> NDArray[np.uint16]:
    """bf16 patterns of a tensor, without a copy where its memory allows."""
    return tensor.detach().contiguous().view(torch.int16).numpy().view(np.uint16)
