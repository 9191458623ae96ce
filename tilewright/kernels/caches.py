"""Keys and values of a model of Transformers: where a new token goes, and how it attends.

``SparseCache`` is a cache whose prompt is pruned and packed; any model of Transformers takes it as
``past_key_values``, and one that ``sparsify`` has fused attends to the packed form with AMX. Needs
the optional extra ``torch`` and Hugging Face Transformers.
"""

# Annotations stay text, so that the documentation can be built where PyTorch is not installed.
from __future__ import annotations

import warnings
from math import sqrt
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn
from transformers.cache_utils import Cache as TransformersCache
from transformers.cache_utils import DynamicLayer

from tilewright.golden.sparamx.attention import KEY_SPARSITY, VALUE_SPARSITY
from tilewright.kernels.attention import Cache
from tilewright.kernels.operators import grow
from tilewright.kernels.torch_layers import bits_of


class SparseCache(TransformersCache):
    """A cache for ``past_key_values`` whose prompt is pruned by magnitude and packed.

    Parameters
    ----------
    config:
        That of the model. One with sliding windows is refused.
    key_sparsity, value_sparsity:
        Shares of each layer's keys and values that become zero; 30% and 50% by default, at which
        the SparAMX paper finds less than 1% of accuracy lost. With 0 and 0 they are packed dense.

    The prompt attends to itself unpruned. It is pruned and packed when the first token after it
    arrives; that and later tokens stay dense.
    """

    def __init__(
        self,
        config: Any,
        *,
        key_sparsity: float = KEY_SPARSITY,
        value_sparsity: float = VALUE_SPARSITY,
    ):
        for name, share in (("key", key_sparsity), ("value", value_sparsity)):
            if not 0 <= share <= 1:
                raise ValueError(f"{name}_sparsity must be 0..1, not {share!r}")
        text = config.get_text_config(decoder=True)
        kinds = set(getattr(text, "layer_types", None) or ["full_attention"])
        if kinds != {"full_attention"} or getattr(text, "sliding_window", None):
            raise ValueError("a sparse cache has no sliding windows, which this model's layers use")
        count = text.num_hidden_layers
        super().__init__(layers=[SparseLayer(key_sparsity, value_sparsity) for _ in range(count)])


class SparseLayer(DynamicLayer):
    """One layer of a :class:`SparseCache`: as Transformers has it, and packed after the prompt."""

    keys: Any  # tensors, or None before the first token
    values: Any
    dtype: Any
    device: Any
    packed: Cache | None = None
    sequences: int  # of the packed tokens
    warned = False

    def __init__(self, key_sparsity: float, value_sparsity: float):
        super().__init__()
        self.sparsity = key_sparsity, value_sparsity

    def update(self, keys: Tensor, values: Tensor, *args: Any, **named: Any) -> Any:
        """Take new tokens, (sequences, heads, tokens, dim); all keys and values as dense tensors.

        Unpacking them again takes longer than attending to them packed, as a fused model does.
        """
        if keys.shape[-2] > 1 and self.packed is None:
            return super().update(keys, values, *args, **named)
        if self.is_initialized and keys.shape[-2] == 1 and not SparseLayer.warned:
            SparseLayer.warned = True
            warnings.warn(
                "this model unpacks its sparse cache for every token, which is slow: sparsify it,"
                " choose attn_implementation='sdpa', and pad no sequence",
                stacklevel=2,
            )
        self.pack()
        if self.packed is None:  # a prompt of one token
            return super().update(keys, values, *args, **named)
        self.append(keys, values)
        return self.dense()

    def pack(self) -> None:
        """Prune and pack what there is, once; each sequence is pruned by itself."""
        if self.packed is not None or super().get_seq_length() == 0:
            return
        if self.keys.dtype is not torch.bfloat16:
            raise ValueError(f"a sparse cache holds bf16, not {self.keys.dtype}: load the model so")
        shape = (-1, *self.keys.shape[2:])
        keys, values = (
            t.to(torch.float32).reshape(shape).numpy() for t in (self.keys, self.values)
        )
        self.packed = Cache(
            *(keys, values),
            key_sparsity=self.sparsity[0],
            value_sparsity=self.sparsity[1],
            sequences=len(self.keys),
        )
        self.sequences = len(self.keys)
        self.keys = self.values = self.keys[:, :, :0].clone()  # frees its memory

    def append(self, keys: Tensor, values: Tensor) -> None:
        assert self.packed is not None
        shape = (-1, *keys.shape[2:])
        self.packed.append(bits_of(keys.reshape(shape)), bits_of(values.reshape(shape)))

    def dense(self) -> tuple[Tensor, Tensor]:
        """All keys and values, those of the prompt with zeros where they were pruned."""
        assert self.packed is not None
        keys, values = (
            torch.from_numpy(np.ascontiguousarray(part).view(np.int16)).view(torch.bfloat16)
            for part in self.packed.dense()
        )
        shape = (self.sequences, -1, *keys.shape[1:])
        return keys.view(shape), values.view(shape)

    def _unpack(self) -> None:
        if self.packed is not None:
            self.keys, self.values = self.dense()
            self.packed = None

    def get_seq_length(self) -> int:
        if self.packed is not None:
            return self.packed.tokens + self.packed.tail.tokens
        return int(super().get_seq_length())

    def crop(self, tokens_to_remove: int) -> None:
        """Drop the last tokens: -N drops N, N keeps the first N, as in Transformers."""
        tokens = -tokens_to_remove
        if tokens < 0:
            tokens = max(0, self.get_seq_length() - tokens_to_remove)
        if self.packed is not None and tokens <= self.packed.tail.tokens:
            self.packed.tail.tokens -= tokens
            return
        self._unpack()
        super().crop(-tokens)

    def reset(self) -> None:
        """Forget everything; some releases of Transformers keep the tokens as zeros."""
        self.packed = self.keys = self.values = None
        self.is_initialized = False

    def batch_repeat_interleave(self, repeats: int) -> None:
        self._unpack()
        super().batch_repeat_interleave(repeats)

    def batch_select_indices(self, indices: Tensor) -> None:
        self._unpack()
        super().batch_select_indices(indices)

    def reorder_cache(self, beam_idx: Tensor) -> None:
        self._unpack()
        super().reorder_cache(beam_idx)


class DensePlace:
    """Room for new tokens after those of a growing cache of Transformers.

    Such a cache copies all of its tokens for every new one; here they stay in place, followed by
    room for more.
    """

    def __init__(self, layer: Any, tokens: int):
        keys, before = layer.keys, layer.keys.shape[2]
        rooms = getattr(layer, "rooms", None)
        if (
            rooms is None
            or rooms[0].data_ptr() != keys.data_ptr()  # cut at the end is fine, another order not
            or rooms[1].data_ptr() != layer.values.data_ptr()
            or rooms[0].shape[2] < before + tokens
            or rooms[0].shape[0] != len(keys)
        ):
            rooms = layer.rooms = (grow(keys, tokens), grow(layer.values, tokens))
        self.layer, self.before, self.tokens = layer, before, tokens
        self.rooms: tuple[Tensor, Tensor] = rooms

    def filled(self) -> tuple[Tensor, Tensor]:
        """All keys and values, once the new ones are in their place."""
        until = self.before + self.tokens
        self.layer.keys, self.layer.values = (room[:, :, :until] for room in self.rooms)
        return self.layer.keys, self.layer.values

    def attend(self, joined: Tensor, queries: int, dim: int, scale: float) -> Tensor:
        """One token's attention by PyTorch: (sequences, 1, features) of its turned queries."""
        rows = len(joined)
        query = joined.view(rows, 1, -1, dim)[:, :, :queries].transpose(1, 2)
        mixed = nn.functional.scaled_dot_product_attention(
            query, *self.filled(), scale=scale, enable_gqa=True
        )
        return mixed.transpose(1, 2).reshape(rows, 1, queries * dim)


class SparsePlace:
    """The tail of a packed cache: new tokens are taken from where the projections left them."""

    rooms = None
    before = 0

    def __init__(self, layer: SparseLayer):
        self.layer = layer

    def attend(self, joined: Tensor, queries: int, dim: int, scale: float) -> Tensor:
        """One token's attention by the kernels; its keys, turned, and values become the last."""
        packed = self.layer.packed
        assert packed is not None
        rows = len(joined)
        heads = joined.view(rows, -1, dim)
        count = (heads.shape[1] - queries) // 2
        keys, values = heads[:, queries : queries + count], heads[:, queries + count :]
        self.layer.append(keys.unsqueeze(2), values.unsqueeze(2))
        query = heads[:, :queries]
        if abs(scale * sqrt(dim) - 1) > 1e-6:  # the kernels divide by sqrt(dim)
            query = query * (scale * sqrt(dim))
        mixed = joined.new_empty((rows, 1, queries * dim))
        packed.attend(bits_of(query.reshape(-1, dim)), out=bits_of(mixed.view(-1, dim)))
        return mixed


def room_in(cache: Any, index: int, sequences: int, tokens: int) -> DensePlace | SparsePlace | None:
    """Where the next tokens of a layer go; None where the cache is of another kind or empty.

    A sparse cache packs its prompt now, and has a place for one token at a time.
    """
    layers = getattr(cache, "layers", ())
    layer: Any = layers[index] if index < len(layers) else None
    if layer is None or not getattr(layer, "is_initialized", False):
        return None
    if type(layer) is SparseLayer:
        if tokens > 1:
            return None
        layer.pack()
        return SparsePlace(layer) if layer.packed and layer.sequences == sequences else None
    if type(layer) is not DynamicLayer:
        return None
    keys = layer.keys
    if keys.dtype is not torch.bfloat16 or keys.dim() != 4 or len(keys) != sequences:
        return None
    return DensePlace(layer, tokens)
