"""Harmonia's KV cache as a cache of Transformers: keys and values by their age.

Its content is that of ``tilewright.golden.harmonia.cache`` after the same tokens, head by head, as
bf16 values, which hold 8-bit mantissas exactly. The windows are those of the end of the call, so a
prompt's queries all see the lengths that the prompt's end defines, as on the accelerator.
"""

from __future__ import annotations

from typing import Any

import torch
from transformers.cache_utils import Cache, DynamicLayer

from tilewright.torch.attention import CONVERTED, channel_offsets
from tilewright.torch.config import HarmoniaConfig
from tilewright.torch.convert import Tensor, to_block_float

MOST_BITS = 8  # of a mantissa in bf16


class HarmoniaCache(Cache):
    """Give it to ``generate`` or to a call: ``model(ids, past_key_values=HarmoniaCache(config))``.

    ``config`` is the ``HarmoniaConfig`` of the model.
    """

    def __init__(self, config: HarmoniaConfig):
        for name in ("key_bits", "value_bits"):
            bits = getattr(config, name)
            if max(bits) > MOST_BITS:
                raise ValueError(f"{name} of a cache are at most {MOST_BITS}, not {bits}")
        self.config = config
        super().__init__(layer_class_to_replicate=lambda **_: HarmoniaCacheLayer(config))


class HarmoniaCacheLayer(DynamicLayer):
    """The cache of one layer; ``update`` gives all keys, less their offsets, and all values."""

    def __init__(self, config: HarmoniaConfig):
        super().__init__()
        self.settings = config
        self.reset()

    def reset(self) -> None:
        self.keys = self.values = None
        self.is_initialized = False
        self.tokens = 0
        self.offset: Tensor | None = None
        self._keys: Tensor | None = None  # bf16 (batch, heads, tokens, C)
        self._values: Tensor | None = None  # the same of whole groups of tokens
        self._rest: Tensor | None = None  # fp16 values of the unfinished group

    def update(
        self, key_states: Tensor, value_states: Tensor, *args: Any, **kwargs: Any
    ) -> tuple[Tensor, Tensor]:
        if not self.is_initialized:
            self.lazy_initialization(key_states, value_states)
        before, self.tokens = self.tokens, self.tokens + key_states.shape[2]
        keys = self._appended_keys(key_states.detach(), before).to(self.dtype)
        setattr(keys, CONVERTED, True)
        return keys, self._appended_values(value_states.detach(), before)

    def _appended_keys(self, keys: Tensor, before: int) -> Tensor:
        config = self.settings
        if self.offset is None:
            self.offset = channel_offsets(config.cache, keys)[:, :, None]
        wide = keys.half().float()
        shifted = torch.where(self.offset != 0, (wide - self.offset).half().float(), wide)
        new = to_block_float(shifted, config.group, config.key_bits[0], torch.bfloat16)
        self._keys = _joined(self._keys, new)
        # A shorter truncation of a truncated value is the shorter truncation of the value.
        old = slice(max(config.initial, before - config.local), self.tokens - config.local)
        if old.start < old.stop:
            short = to_block_float(self._keys[:, :, old], config.group, config.key_bits[1])
            self._keys[:, :, old] = short.bfloat16()
        return self._keys

    def _appended_values(self, values: Tensor, before: int) -> Tensor:
        config = self.settings
        high, low = config.value_bits
        pending = _joined(self._rest, values.half())
        whole = pending.shape[2] - pending.shape[2] % config.group
        self._rest = pending[:, :, whole:]
        self._values = _joined(self._values, self._grouped(pending[:, :, :whole], high))
        # Groups all of whose tokens have left the local window.
        ended = [(tokens - config.local) // config.group for tokens in (before, self.tokens)]
        old = slice(max(config.initial, config.group * ended[0]), config.group * ended[1])
        if old.start < old.stop:
            self._values[:, :, old] = self._grouped(self._values[:, :, old], low)
        # The unfinished group is converted anew from its fp16 values.
        return torch.cat([self._values, self._grouped(self._rest, high)], 2).to(self.dtype)

    def _grouped(self, values: Tensor, bits: int) -> Tensor:
        """Convert (batch, heads, tokens, C) in groups of tokens."""
        converted = to_block_float(values.transpose(2, 3), self.settings.group, bits)
        return converted.transpose(2, 3).bfloat16()

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
