"""Sparse linear layers inside a PyTorch model; needs the optional extra ``torch``.

For inference: nothing here computes gradients. Numbers are those of the kernels: bf16 operands,
fp32 sums in the order of ``tilewright.golden.sparamx``, the bias added in fp32, one rounding to
bf16.
"""

# Annotations stay text, so that the documentation can be built where PyTorch is not installed.
from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from tilewright.kernels.forms import PARTS, coded_parts, family, matrix_of, pack, prune_bits
from tilewright.kernels.library import SLACK, as_weight_bytes, with_slack
from tilewright.kernels.operators import Prepared, linear
from tilewright.kernels.quantised import Quantised, lay_out_rows


class SparseLinear(nn.Module):
    """A linear layer whose weights are packed; its state is the packed arrays.

    Parameters
    ----------
    form:
        How weights are stored, see ``tilewright.kernels.forms``.
    parts:
        The packed arrays by name, as tensors of bytes.
    gated:
        Outputs are gates and values in turn, 16 of each; returns silu(gate) * value.
    """

    threads: int | None = None  # as many as PyTorch uses

    def __init__(
        self,
        form: str,
        shape: tuple[int, int],
        parts: dict[str, Tensor],
        scales: Tensor | None = None,
        bias: Tensor | None = None,
        *,
        gated: bool = False,
    ):
        super().__init__()
        self.form, self.gated = form, gated
        self.out_features, self.in_features = shape
        self._names = PARTS[family(form)]
        for name in self._names:
            self.register_buffer(name, parts[name])
        self.register_buffer("scales", scales)
        self.register_buffer("bias", None if bias is None else bias.detach().to(torch.float32))
        self._ready: tuple[tuple[int, ...], Prepared] | None = None

    @classmethod
    def of(
        cls,
        layers: nn.Linear | Sequence[nn.Linear],
        sparsity: float | None,
        form: str = "bf16",
        *,
        gated: bool = False,
    ) -> SparseLinear:
        """The pruned and packed form of a layer, or of several with the same inputs as one.

        Each is pruned by itself; without a ``sparsity`` weights are taken as they are. A ValueError
        says why a layer has no such form.
        """
        layers = [layers] if isinstance(layers, nn.Linear) else list(layers)
        bits = [pruned_bits(_weight_of(layer), sparsity) for layer in layers]
        matrix = joined(bits, gated)
        del bits
        packed = pack(form, matrix)
        scales = None if packed.scales is None else torch.from_numpy(packed.scales)
        parts = {name: torch.from_numpy(array) for name, array in packed.parts.items()}
        shape = (matrix.shape[0], matrix.shape[1])
        return cls(form, shape, parts, scales, _joined_bias(layers, gated), gated=gated)

    @classmethod
    def of_quantised(
        cls, layers: Sequence[nn.Linear], parts: Sequence[Quantised], *, gated: bool = False
    ) -> SparseLinear:
        """One layer of several with the same inputs, quantised elsewhere; ``layers`` have biases.

        A ValueError says why they do not go together.
        """
        rows = np.split(
            np.arange(sum(len(part.codes) for part in parts)),
            np.cumsum([len(part.codes) for part in parts])[:-1],
        )
        order = np.stack([r.reshape(-1, 16) for r in rows], 1) if gated else np.concatenate(rows)
        coded = lay_out_rows(parts, order.reshape(-1))
        arrays = {name: torch.from_numpy(array) for name, array in coded_parts(coded).items()}
        return cls(
            parts[0].form, coded.shape, arrays, None, _joined_bias(layers, gated), gated=gated
        )

    def named_parts(self) -> Iterator[tuple[str, Tensor]]:
        for name in self._names:
            yield name, self.get_buffer(name)

    def _parts(self) -> list[Tensor]:
        return [part for _, part in self.named_parts()]

    def prepared(self) -> Prepared:
        """The packed arrays as the kernels want them, described anew where they have moved."""
        parts = [self._buffers[name] for name in self._names]
        bias, scales = self._buffers["bias"], self._buffers["scales"]
        places = tuple(0 if t is None else t.data_ptr() for t in (*parts, bias, scales))
        if self._ready is None or self._ready[0] != places:
            arrays = {n: t.numpy() for n, t in zip(self._names, parts, strict=True)}
            matrix = matrix_of(self.form, (self.out_features, self.in_features), arrays)
            self._ready = places, Prepared(matrix, scales, bias, self.gated)
        return self._ready[1]

    def forward(self, x: Tensor) -> Tensor:
        if torch.compiler.is_compiling() or type(x) is not Tensor:
            bias, scales = self._buffers["bias"], self._buffers["scales"]
            return linear(x, self._parts(), self.form, self.out_features, scales, bias, self.gated)
        return self.prepared().multiply(x, self.threads)

    def extra_repr(self) -> str:
        size = sum(part.numel() for part in self._parts())
        dense = 2 * self.in_features * self.out_features
        gate = ", gated" if self.gated else ""
        return (
            f"in_features={self.in_features}, out_features={self.out_features},"
            f" form={self.form}, bytes={size / dense:.1%} of bf16{gate}"
        )

    def __setattr__(self, name: str, value: Any) -> None:
        super().__setattr__(name, value)
        if name in self.__dict__.get("_buffers", ()):
            self._ready = None  # it has the address of the old one

    def _apply(self, *args: Any, **named: Any) -> Any:
        self._ready = None
        return super()._apply(*args, **named)

    def __getstate__(self) -> dict[str, Any]:
        return {**self.__dict__, "_ready": None}  # addresses mean nothing elsewhere

    def _load_from_state_dict(
        self, state_dict: dict[str, Any], prefix: str, *rest: Any, **named: Any
    ) -> None:
        """Take over packed arrays of whatever length, and refuse those that contradict."""
        found = {n: state_dict[prefix + n] for n in self._names if prefix + n in state_dict}
        if len(found) == len(self._names):
            shape = (self.out_features, self.in_features)
            matrix_of(self.form, shape, {n: part.numpy() for n, part in found.items()})
            for name, part in found.items():
                if part.shape != self.get_buffer(name).shape:
                    self._buffers[name] = settled(torch.empty_like(part))
        super()._load_from_state_dict(state_dict, prefix, *rest, **named)
        self._ready = None


def _joined_bias(layers: Sequence[nn.Linear], gated: bool) -> Tensor | None:
    biases = [layer.bias for layer in layers]
    if all(b is None for b in biases):
        return None
    found = [
        torch.zeros(layer.out_features) if b is None else b.detach().float()
        for layer, b in zip(layers, biases, strict=True)
    ]
    together = torch.stack([b.view(-1, 16) for b in found], 1) if gated else torch.cat(found)
    return together.reshape(-1)


def settled(part: Tensor) -> Tensor:
    """A copy of packed bytes in aligned memory on large pages."""
    bytes_ = part.detach().contiguous().numpy()
    return torch.from_numpy(with_slack(as_weight_bytes(bytes_[: len(bytes_) - SLACK])))


def _weight_of(layer: nn.Linear) -> Tensor:
    if type(layer) is not nn.Linear:
        raise ValueError(f"a {type(layer).__name__} may do more than multiply")
    weight = layer.weight.detach()
    if weight.device.type != "cpu":
        raise ValueError(f"its weights are on {weight.device}, not on the CPU")
    if not weight.dtype.is_floating_point:
        raise ValueError(f"its weights are {weight.dtype}")
    return weight


def pruned_bits(weight: Tensor, sparsity: float | None) -> NDArray[np.uint16]:
    """Patterns of a weight matrix in bf16, of which that share has become zero.

    Those of least magnitude go, and of equal ones the first. Without a ``sparsity`` this is a view
    of the weights where they are bf16 already.
    """
    if not sparsity:
        return bits_of(weight.to(torch.bfloat16))
    copy = weight.to(torch.bfloat16, copy=True, memory_format=torch.contiguous_format)
    bits = bits_of(copy)
    prune_bits(bits, sparsity)
    return bits


def joined(matrices: Sequence[NDArray[np.uint16]], gated: bool) -> NDArray[np.uint16]:
    """Several matrices one below the other; a gated pair alternates, 16 rows of each."""
    tensors = [torch.from_numpy(bits.view(np.int16)) for bits in matrices]
    rows, inputs = tensors[0].shape
    if gated:
        if rows % 16:
            raise ValueError(f"gates need a multiple of 16 outputs, not {rows}")
        together = torch.stack([t.view(-1, 16, inputs) for t in tensors], dim=1)
        return together.view(-1, inputs).numpy().view(np.uint16)
    together = torch.cat(tensors) if len(tensors) > 1 else tensors[0]
    return together.numpy().view(np.uint16)


def bits_of(tensor: Tensor) -> NDArray[np.uint16]:
    """bf16 patterns of a tensor, without a copy where its memory allows."""
    return tensor.detach().contiguous().view(torch.int16).numpy().view(np.uint16)
