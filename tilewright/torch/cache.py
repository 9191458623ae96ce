"""Harmonia's KV cache as a cache of Transformers: keys and values by their age.

Its content is that of ``tilewright.golden.harmonia.cache`` after the same tokens, head by head. Old
tokens take a byte for each element (sign and up to 7 bits of mantissa) and one for each exponent;
recent ones are bf16 values, which hold 8-bit mantissas exactly. The windows are those of the end of
the call, so a prompt's queries all see the lengths that the prompt's end defines, as on the
accelerator.
"""

from __future__ import annotations

from typing import Any

import torch
from transformers.cache_utils import Cache, DynamicLayer

from tilewright.torch.attention import CONVERTED, channel_offsets
from tilewright.torch.config import HarmoniaConfig
from tilewright.torch.convert import Tensor, block_parts, power_of_two, to_block_float

STORED_BITS = 7  # the longest mantissa that a byte holds with its sign


class HarmoniaCache(Cache):
    """Give it to ``generate`` or to a call: ``model(ids, past_key_values=HarmoniaCache(config))``.

    ``config`` is the ``HarmoniaConfig`` of the model.
    """

    def __init__(self, config: HarmoniaConfig):
        for name in ("key_bits", "value_bits"):
            high, low = getattr(config, name)
            if high > 8 or low > STORED_BITS:
                raise ValueError(
                    f"{name} of a cache are at most 8 and {STORED_BITS}, not {high, low}"
                )
        self.config = config
        super().__init__(layer_class_to_replicate=lambda **_: HarmoniaCacheLayer(config))

    @property
    def stored_bytes(self) -> int:
        """Bytes that the tensors of all layers take."""
        return sum(layer.stored_bytes for layer in self.layers)


class _Old:
    """Converted groups in bytes: (batch, heads, rows, length), groups along the last axis."""

    def __init__(self, group: int, bits: int):
        self.group, self.bits = group, bits
        self.mantissa: Tensor | None = None  # int8
        self.exponent: Tensor | None = None  # uint8 (batch, heads, rows, groups)

    def append(self, values: Tensor) -> None:
        parts = block_parts(values, self.group, self.bits)
        signed = torch.where(parts.sign, -parts.mantissa, parts.mantissa).to(torch.int8)
        exponent = parts.exponent.to(torch.uint8)
        if self.mantissa is not None and self.exponent is not None:
            signed = torch.cat([self.mantissa, signed], 2)
            exponent = torch.cat([self.exponent, exponent], 2)
        self.mantissa, self.exponent = signed, exponent

    def values(self, length: int) -> Tensor | None:
        """(batch, heads, rows, length) as float32."""
        if self.mantissa is None or self.exponent is None:
            return None
        step = power_of_two(self.exponent.int() - 15 - (self.bits - 1))
        return (self.mantissa.float() * step[..., None]).flatten(-2)[..., :length]

    @property
    def tensors(self) -> list[Tensor]:
        return [t for t in (self.mantissa, self.exponent) if t is not None]


class HarmoniaCacheLayer(DynamicLayer):
    """The cache of one layer; ``update`` gives all keys, less their offsets, and all values."""

    def __init__(self, config: HarmoniaConfig):
        super().__init__()
        self.settings = config
        self.reset()

    def reset(self) -> None:
        self.keys = self.values = None
        self.is_initialized = False
        config = self.settings
        self.tokens = 0
        self.offset: Tensor | None = None
        self.old_keys = _Old(config.group, config.key_bits[1])
        self.old_values = _Old(config.group, config.value_bits[1])
        self._recent: Tensor | None = None  # keys of the local window
        self._first: Tensor | None = None  # keys of the initial window
        self._first_values: Tensor | None = None  # whole groups of the initial window
        self._recent_values: Tensor | None = None  # whole groups, the newest ones
        self._residual: Tensor | None = None  # fp16 values of the unfinished group

    def update(
        self, key_states: Tensor, value_states: Tensor, *args: Any, **kwargs: Any
    ) -> tuple[Tensor, Tensor]:
        if not self.is_initialized:
            self.lazy_initialization(key_states, value_states)
        before, self.tokens = self.tokens, self.tokens + key_states.shape[2]
        self._append_keys(key_states, before)
        self._append_values(value_states, before)
        keys = self._all(self._first, self.old_keys, self._recent, key_states.shape[-1])
        setattr(keys, CONVERTED, True)
        return keys, self._all_values()

    def _append_keys(self, keys: Tensor, before: int) -> None:
        config = self.settings
        if self.offset is None:
            self.offset = channel_offsets(config.cache, keys)[:, :, None]
        wide = keys.half().float()
        shifted = torch.where(self.offset != 0, (wide - self.offset).half().float(), wide)
        new = to_block_float(shifted, config.group, config.key_bits[0]).bfloat16()
        head = max(0, min(config.initial - before, new.shape[2]))
        self._first = _joined(self._first, new[:, :, :head])
        recent = _joined(self._recent, new[:, :, head:])
        leaving = max(0, recent.shape[2] - config.local)
        # A shorter truncation of a truncated value is the shorter truncation of the value.
        self._age(self.old_keys, recent[:, :, :leaving])
        self._recent = recent[:, :, leaving:]

    def _append_values(self, values: Tensor, before: int) -> None:
        config = self.settings
        pending = _joined(self._residual, values.half())
        whole = pending.shape[2] - pending.shape[2] % config.group
        self._residual = pending[:, :, whole:]
        new = self._grouped(pending[:, :, :whole])  # (batch, heads, groups, C, group)
        stored = 0 if self._first_values is None else self._first_values.shape[2]
        head = max(0, min(config.initial // config.group - stored, new.shape[2]))
        self._first_values = _joined(self._first_values, new[:, :, :head])
        recent = _joined(self._recent_values, new[:, :, head:])
        ended = (self.tokens - config.local) // config.group  # groups that have left the window
        done = 0 if self.old_values.mantissa is None else self.old_values.mantissa.shape[2]
        leaving = min(max(0, ended - self._first_values.shape[2] - done), recent.shape[2])
        self._age(self.old_values, recent[:, :, :leaving])
        self._recent_values = recent[:, :, leaving:]

    def _grouped(self, values: Tensor) -> Tensor:
        """fp16 values (batch, heads, tokens, C) -> converted (batch, heads, groups, C, group)."""
        config = self.settings
        groups = values.unflatten(2, (-1, config.group)).transpose(3, 4)
        return to_block_float(groups, config.group, config.value_bits[0]).bfloat16()

    def _age(self, old: _Old, leaving: Tensor) -> None:
        if leaving.shape[2]:
            old.append(leaving)

    def _all(self, first: Tensor | None, old: _Old, recent: Tensor | None, length: int) -> Tensor:
        parts = [first, old.values(length), recent]
        return torch.cat([p.to(self.dtype) for p in parts if p is not None], 2)

    def _all_values(self) -> Tensor:
        config = self.settings
        assert self._residual is not None
        # The unfinished group is converted anew from its fp16 values.
        residual = to_block_float(
            self._residual.transpose(2, 3), config.group, config.value_bits[0]
        )
        parts = []
        for part in (self._first_values, self.old_values.values(config.group), self._recent_values):
            if part is not None and part.shape[2]:
                parts.append(part.to(self.dtype).transpose(3, 4).flatten(2, 3))
        return torch.cat([*parts, residual.transpose(2, 3).to(self.dtype)], 2)

    @property
    def stored_bytes(self) -> int:
        """Bytes of the stored tensors."""
        kept = (self._first, self._recent, self._first_values, self._recent_values, self._residual)
        tensors = [*self.old_keys.tensors, *self.old_values.tensors]
        tensors += [t for t in kept if t is not None]
        return sum(t.numel() * t.element_size() for t in tensors)

    def get_seq_length(self) -> int:
        return self.tokens

    def get_mask_sizes(self, query_length: int) -> tuple[int, int]:
        return self.tokens + query_length, 0

    def reorder_cache(self, beam_idx: Tensor) -> None:
        raise NotImplementedError("a Harmonia cache serves no beam search")

    def crop(self, tokens_to_remove: int) -> None:
        raise NotImplementedError("a Harmonia cache cannot forget its newest tokens")


def _joined(before: Tensor | None, new: Tensor) -> Tensor:
    return new if before is None else torch.cat([before, new], 2)
