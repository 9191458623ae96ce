"""Harmonia's smoothing factors on a model of Transformers: learned on text, folded into weights.

The factors of a key head's channels multiply the rows of its key projection and divide those of
the query heads that meet it. They are folded on the way into the conversion of the weights, so the
model's parameters stay as they are and ``restore_`` takes the factors out again.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import torch

from tilewright.golden.harmonia.cached_attention import CacheFormat
from tilewright.golden.harmonia.learned_scales import LayerFactors
from tilewright.torch.attention import SETTINGS
from tilewright.torch.config import LinearFormat
from tilewright.torch.linear import FormatLinear, convert_linear
from tilewright.torch.modules import STATE, ModuleError, attention_modules, recipe_of
from tilewright.torch.placement import device_of, weight_of
from tilewright.torch.recipe import Factors, Recipe

__all__ = ["apply_factors", "factors_fit", "learn_factors", "smooth_"]

RECORDER = "tilewright_recorder"
STEPS = 200


def learn_factors(
    model: Any,
    sequences: Sequence[Sequence[int]],
    cache: CacheFormat | None = None,
    *,
    steps: int = STEPS,
    seed: int = 0,
    progress: Callable[[int, int], None] | None = None,
) -> dict[str, Factors]:
    """Factors of every attention module's keys, by its name; ``sequences`` are tokens of a text.

    The model has no format in it then. The search is that of
    ``tilewright.golden.harmonia.learned_scales``, on the processor; ``progress`` is called after
    every layer.
    """
    from transformers import AttentionInterface, AttentionMaskInterface
    from transformers.masking_utils import eager_mask

    attentions = attention_modules(model)
    _require_plain(attentions)
    seen: dict[torch.nn.Module, list[tuple[np.ndarray, ...]]] = {}

    def record(
        module: Any, query: Any, key: Any, value: Any, mask: Any, scaling: float, **_: Any
    ) -> tuple[torch.Tensor, None]:
        parts = (query * scaling, key, value)
        arrays = tuple(part[0].detach().float().cpu().numpy() for part in parts)
        seen.setdefault(module, []).append(arrays)
        share = query.shape[1] // key.shape[1]
        keys, values = (x.repeat_interleave(share, 1) for x in (key, value))
        result = torch.nn.functional.scaled_dot_product_attention(
            query, keys, values, attn_mask=mask, scale=scaling
        )
        return result.transpose(1, 2).contiguous(), None

    AttentionInterface.register(RECORDER, record)
    AttentionMaskInterface.register(RECORDER, eager_mask)
    before = model.config._attn_implementation
    model.set_attn_implementation(RECORDER)
    try:
        device = device_of(model)
        with torch.inference_mode():
            for tokens in sequences:
                ids = torch.as_tensor(tokens, dtype=torch.long, device=device)[None]
                model(input_ids=ids, use_cache=False)
    finally:
        model.set_attn_implementation(before)
    form = replace(cache or CacheFormat(), offset_channels=0)
    found: dict[str, Factors] = {}
    for index, (name, module) in enumerate(attentions.items()):
        parts = [(q, k, v) for q, k, v in seen.pop(module)]
        output: Any = next(
            child for leaf, child in module.named_children() if leaf in ("o_proj", "out_proj")
        )
        problem = LayerFactors(
            form,
            weight_of(output).float().cpu().numpy(),
            parts,
            key_heads=len(parts[0][1]),
            rotary=_is_rotary(model),
        )
        scales, _, _ = problem.learn(steps, np.random.default_rng((seed, index)))
        found[name] = [[float(x) for x in row] for row in scales]
        if progress is not None:
            progress(index + 1, len(attentions))
    return found


def smooth_(model: Any, factors: Mapping[str, Factors]) -> Recipe:
    """Fold factors into a model that ``quantize_`` has put a format into; its new recipe."""
    recipe = recipe_of(model)
    apply_factors(model, factors)
    made = replace(recipe, smoothing={name: [list(r) for r in f] for name, f in factors.items()})
    getattr(model, STATE)["recipe"] = made
    return made


def apply_factors(model: Any, factors: Mapping[str, Factors]) -> None:
    """Give the query and key projections of the named attention modules their factors."""
    have = dict(model.named_modules())
    for name in factors:
        if name not in have or not hasattr(have[name], SETTINGS):
            raise ModuleError(name, "factors are for an attention module in Harmonia's format")
    _require_plain({name: have[name] for name in factors})
    for name, rows in factors.items():
        module = have[name]
        scales = torch.tensor(rows, dtype=torch.float32)
        if not bool((torch.isfinite(scales) & (scales > 0)).all()):
            raise ModuleError(name, "factors must be positive and finite")
        query, key = module.q_proj, module.k_proj
        if scales.numel() != key.out_features:
            raise ModuleError(
                name, f"{scales.numel()} factors meet {key.out_features} outputs of k_proj"
            )
        half = scales.shape[1] // 2
        if _is_rotary(model) and not torch.equal(scales[:, :half], scales[:, half:]):
            raise ModuleError(name, "rotary positions mix channels c and c + C/2: one factor each")
        share = query.out_features // key.out_features
        shared = scales.repeat_interleave(share, 0).reshape(-1)
        for linear, values in ((query, 1 / shared), (key, scales.reshape(-1))):
            _give_rows(linear, values)


def _give_rows(linear: torch.nn.Linear, rows: torch.Tensor) -> None:
    if not isinstance(linear, FormatLinear):
        convert_linear(linear, LinearFormat(None, None))
    assert isinstance(linear, FormatLinear)
    linear.__dict__.pop("rows", None)
    rows = rows.to(device_of(linear), linear.weight.dtype)
    linear.register_buffer("rows", rows, persistent=False)


def _is_rotary(model: Any) -> bool:
    return any("rotary" in name for name, _ in model.named_modules())


def factors_fit(model: Any) -> bool:
    """Whether the attention of a model can have factors."""
    try:
        _require_plain(attention_modules(model))
    except ModuleError:
        return False
    return True


def _require_plain(attentions: Mapping[str, Any]) -> None:
    for name, module in attentions.items():
        if hasattr(module, "q_norm") or hasattr(module, "k_norm"):
            raise ModuleError(
                name, "queries and keys are normalised after their projections: no factors fit"
            )
        if not (hasattr(module, "q_proj") and hasattr(module, "k_proj")):
            raise ModuleError(name, "factors need projections called q_proj and k_proj")
