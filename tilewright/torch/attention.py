"""Harmonia's attention for models of Transformers, through its attention interface.

Query t of a sequence attends to keys and values as Harmonia's cache holds them after t + 1 tokens,
as ``tilewright.golden.harmonia.cached_attention`` measures: whole matrices with masks, however
many tokens arrive at a time. Sequences of a batch begin at position 0: left padding would count
as tokens of the windows.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch

from tilewright.golden.params.harmonia import CacheParams
from tilewright.torch.config import HarmoniaConfig
from tilewright.torch.convert import (
    Tensor,
    mantissa_step,
    round_half,
    straight_through,
    to_block_float,
    to_fp16,
)

IMPLEMENTATION = "tilewright_harmonia"  # the name under which Transformers finds it
CONVERTED = "tilewright_converted"  # attribute of keys that a HarmoniaCache has converted
SETTINGS = "tilewright_attention"  # attribute of an attention module: its HarmoniaConfig
_BINADE_BELOW_INFINITY = 32768.0  # an offset of fp16's infinity, as the hardware takes it


def register_attention(name: str, function: Callable[..., tuple[Tensor, None]]) -> None:
    """Make an attention known to Transformers; its mask is that of eager attention."""
    from transformers import AttentionInterface, AttentionMaskInterface
    from transformers.masking_utils import eager_mask

    AttentionInterface.register(name, function)
    AttentionMaskInterface.register(name, eager_mask)


def attention_forward(
    module: torch.nn.Module,
    query: Tensor,
    key: Tensor,
    value: Tensor,
    attention_mask: Tensor | None,
    scaling: float | None = None,
    dropout: float = 0.0,
    **kwargs: Any,
) -> tuple[Tensor, None]:
    """The function that Transformers calls; shapes (batch, heads, tokens, channels)."""
    config = getattr(module, SETTINGS)
    if kwargs.get("softcap") is not None:
        raise ValueError("attention with a soft cap has no form in Harmonia's format")
    factor = query.shape[-1] ** -0.5 if scaling is None else scaling
    converted = getattr(key, CONVERTED, False)
    result = attend(config, query * factor, key, value, attention_mask, converted=converted)
    return result.to(query.dtype).transpose(1, 2).contiguous(), None


def attend(
    config: HarmoniaConfig,
    q: Tensor,
    k: Tensor,
    v: Tensor,
    mask: Tensor | None = None,
    *,
    converted: bool = False,
) -> Tensor:
    """(batch, heads, T, C) of q, the last T of the S tokens of k and v (batch, key heads, S, C).

    q has the factor 1/sqrt(C) in it. ``mask`` is added to the scores (or is True where a token is
    seen); without one, attention is causal. ``converted``: k and v come from a ``HarmoniaCache``.
    """
    heads, tokens, seen = q.shape[1], q.shape[2], k.shape[2]
    share = heads // k.shape[1]
    position = torch.arange(seen - tokens, seen, device=q.device)
    query_bits, weight_bits = config.bits[4:]
    queries = _converted(config, q, query_bits)
    if converted:
        scores = queries @ shared_heads(k.float(), share).transpose(2, 3)
    else:
        scores = key_scores(config, queries, k, position, share)
    weights = softmax(scores, mask, position)
    weights = _converted(config, weights, weight_bits)
    if converted:
        return weights @ shared_heads(v.float(), share)
    return _weighted_values(config, weights, v, position, share)


def _converted(config: HarmoniaConfig, values: Tensor, bits: int) -> Tensor:
    found = to_block_float(values.detach(), config.group, bits)
    return straight_through(values.float(), found) if config.straight_through else found


def shared_heads(x: Tensor, share: int) -> Tensor:
    """A key head for each of the query heads that share it."""
    return x if share == 1 else x.repeat_interleave(share, 1)


def softmax(scores: Tensor, mask: Tensor | None, position: Tensor) -> Tensor:
    """Over the last axis: causal where no mask is given."""
    if mask is None:
        later = torch.arange(scores.shape[-1], device=scores.device) > position[:, None]
        scores = scores.masked_fill(later, -torch.inf)
    elif mask.dtype == torch.bool:
        scores = scores.masked_fill(~mask[..., : scores.shape[-1]], -torch.inf)
    else:
        scores = scores + mask[..., : scores.shape[-1]].float()
    return scores.softmax(-1)


def key_scores(
    config: HarmoniaConfig, queries: Tensor, keys: Tensor, position: Tensor, share: int
) -> Tensor:
    """Scores of converted queries with keys as the cache holds them for each query."""
    shifted = without_offsets(config.cache, keys)
    token = torch.arange(keys.shape[2], device=keys.device)
    recent = (token < config.initial) | (token >= position[:, None] + 1 - config.local)
    high, low = (
        queries @ shared_heads(_converted(config, shifted, bits), share).transpose(2, 3)
        for bits in config.key_bits
    )
    return torch.where(recent, high, low)


def _weighted_values(
    config: HarmoniaConfig, weights: Tensor, v: Tensor, position: Tensor, share: int
) -> Tensor:
    """Weights times the values that each query sees; its own group is unfinished."""
    group, seen = config.group, v.shape[2]
    token = torch.arange(seen, device=v.device)
    end = (token // group + 1) * group  # of a token's group
    own = token // group == position[:, None] // group
    recent = (end <= config.initial) | (end > position[:, None] + 1 - config.local)
    result = _own_groups(config, weights, v, position, share)
    for chosen, bits in zip((recent, ~recent), config.value_bits, strict=True):
        form = _converted(config, v.transpose(2, 3), bits).transpose(2, 3)
        result = result + weights.masked_fill(~chosen | own, 0) @ shared_heads(form, share)
    return result


def _own_groups(
    config: HarmoniaConfig, weights: Tensor, v: Tensor, position: Tensor, share: int
) -> Tensor:
    """Each query with its own group of values, at the exponents the group had by then."""
    group, seen = config.group, v.shape[2]
    high, low = config.value_bits
    first = position // group * group
    member = first[:, None] + torch.arange(group, device=v.device)  # (queries, group)
    until = member <= position[:, None]
    index = member.clamp(max=seen - 1)
    halves = to_fp16(v.detach())[:, :, index]  # (batch, key heads, queries, group, C)
    halves = halves.masked_fill(~until[:, :, None], 0)
    step = mantissa_step(halves.abs().amax(3), high)
    if config.local == 0:  # a group is finished and old at once
        finished = (position == first + group - 1) & (first >= config.initial)
        step = torch.where(finished[:, None], step * 2.0 ** (high - low), step)
    forms = (halves / step[:, :, :, None]).trunc() * step[:, :, :, None]
    if config.straight_through:
        forms = straight_through(v.float()[:, :, index], forms)
    mine = weights.gather(3, index.expand(*weights.shape[:2], -1, -1)).masked_fill(~until, 0)
    split = mine.unflatten(1, (-1, share))  # (batch, key heads, share, queries, group)
    return torch.einsum("bksqt,bkqtc->bksqc", split, forms).flatten(1, 2)


def without_offsets(cache: CacheParams, keys: Tensor) -> Tensor:
    """Keys (batch, key heads, S, C) less the offsets of their first tokens, as float32."""
    wide = keys.float()
    if cache.offset_channels == 0 or cache.initial == 0:
        return wide
    offset = channel_offsets(cache, keys)[:, :, None]
    # A difference of two fp16 values, rounded to float32 and then to fp16, is rounded once in
    # effect: 24 bits are twice the 11 and two more.
    shifted = round_half(round_half(wide) - offset)
    return torch.where(offset != 0, shifted, wide)


def channel_offsets(cache: CacheParams, keys: Tensor) -> Tensor:
    """Offsets (batch, key heads, C) as float32: ``tilewright.golden.harmonia.offset``.

    Half of the value of largest magnitude, the earliest of equal ones, of those channels where it
    is largest, the first of equal ones; 0 elsewhere.
    """
    if cache.offset_channels == 0 or cache.initial == 0:
        return torch.zeros(*keys.shape[:2], keys.shape[-1], device=keys.device)
    window = round_half(keys[:, :, : cache.initial])
    magnitude = window.abs()
    largest = magnitude.amax(2, keepdim=True)
    equal = magnitude == largest
    earliest = equal & (equal.cumsum(2) == 1)
    extreme = torch.where(earliest, window, 0.0).sum(2)
    order = extreme.abs().sort(dim=-1, descending=True, stable=True).indices
    count = min(cache.offset_channels, keys.shape[-1])
    chosen = torch.zeros_like(extreme, dtype=torch.bool).scatter(-1, order[..., :count], True)
    infinite = torch.full_like(extreme, _BINADE_BELOW_INFINITY).copysign(extreme)
    halved = torch.where(extreme.isinf(), infinite, round_half(extreme * 0.5))
    return torch.where(chosen, halved, 0.0)
