"""Harmonia's smoothing factors on a model of Transformers: learned on text, folded into weights.

The factors of a key head's channels multiply the rows of its key projection and divide those of
the query heads that share it: scores stay the same, but a group of even magnitudes loses less in
the conversion. They are folded on the way into the conversion of the weights, so that ``restore_``
takes them out again.

Factors are learned layer by layer, so that attention's contribution to the layer's output changes
least when Q and K are converted. There is no gradient: each step tries a random change of every
head's factors and keeps it where the error falls. The seed decides everything.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, replace
from typing import Any, NamedTuple

import numpy as np
import torch

from tilewright.golden.params.block import require
from tilewright.golden.params.harmonia import CacheParams
from tilewright.torch.attention import (
    SETTINGS,
    key_scores,
    register_attention,
    shared_heads,
    softmax,
)
from tilewright.torch.config import HarmoniaConfig, LinearFormat
from tilewright.torch.convert import Tensor, to_block_float
from tilewright.torch.linear import FormatLinear, convert_linear
from tilewright.torch.modules import (
    STATE,
    ModuleError,
    attention_modules,
    device_of,
    recipe_of,
    weight_of,
)
from tilewright.torch.recipe import Factors, Recipe

RECORDER = "tilewright_recorder"
STEPS = 200
# Powers of a channel's largest magnitude that are tried before the first step.
POWERS = (0.0, -0.25, -0.5, -0.75, -1.0)
SHARE = 0.25  # of the channels change in a step
FIRST_CHANGE, LAST_CHANGE = 0.6, 0.1  # standard deviation of a change, in powers of two

Seen = list[tuple[Tensor, Tensor, Tensor]]  # q with 1/sqrt(C), k, v of each sequence


class Learned(NamedTuple):
    """A layer's factors, and the mean square error without and with them."""

    factors: Factors
    before: float
    after: float


def learn_factors(
    model: Any, sequences: Sequence[Sequence[int]], cache: CacheParams | None = None, **options: Any
) -> dict[str, Factors]:
    """The factors that :func:`learn` gives, without the errors."""
    found = learn(model, sequences, cache, **options)
    return {name: learned.factors for name, learned in found.items()}


def learn(
    model: Any,
    sequences: Sequence[Sequence[int]],
    cache: CacheParams | None = None,
    *,
    steps: int = STEPS,
    seed: int = 0,
    progress: Callable[[int, int], None] | None = None,
) -> dict[str, Learned]:
    """Factors of every attention module's keys, by its name; ``sequences`` are tokens of a text.

    The model has no format in it then; ``progress`` is called after every layer.
    """
    require(steps >= 0, f"steps must be at least 0, not {steps!r}")
    require(len(sequences) > 0, "no calibration text")
    attentions = attention_modules(model)
    _require_plain(attentions)
    seen = _recorded(model, sequences)
    form = {**asdict(cache or CacheParams()), "offset_channels": 0}
    config = HarmoniaConfig(**form, weight_bits=None)
    found: dict[str, Learned] = {}
    for index, (name, module) in enumerate(attentions.items()):
        output: Any = next(
            child for leaf, child in module.named_children() if leaf in ("o_proj", "out_proj")
        )
        problem = _Layer(config, weight_of(output).float(), seen.pop(module), _is_rotary(model))
        found[name] = problem.learn(steps, np.random.default_rng((seed, index)))
        if progress is not None:
            progress(index + 1, len(attentions))
    return found


def _recorded(model: Any, sequences: Sequence[Sequence[int]]) -> dict[torch.nn.Module, Seen]:
    seen: dict[torch.nn.Module, Seen] = {}

    def record(
        module: Any, query: Any, key: Any, value: Any, mask: Any, scaling: float, **_: Any
    ) -> tuple[Tensor, None]:
        parts = (query * scaling, key, value)
        q, k, v = (part[0].detach().float() for part in parts)
        seen.setdefault(module, []).append((q, k, v))
        share = query.shape[1] // key.shape[1]
        keys, values = (shared_heads(x, share) for x in (key, value))
        result = torch.nn.functional.scaled_dot_product_attention(
            query, keys, values, attn_mask=mask, scale=scaling
        )
        return result.transpose(1, 2).contiguous(), None

    register_attention(RECORDER, record)
    before = model.config._attn_implementation
    model.set_attn_implementation(RECORDER)
    try:
        device = device_of(model)
        with torch.no_grad():
            for tokens in sequences:
                ids = torch.as_tensor(tokens, dtype=torch.long, device=device)[None]
                model(input_ids=ids, use_cache=False)
    finally:
        model.set_attn_implementation(before)
    return seen


class _Layer:
    """One layer: the error of converted Q and K in attention's contribution to its output.

    ``output`` is the output projection, ``seen`` are queries, keys and values of each sequence.
    """

    def __init__(self, config: HarmoniaConfig, output: Tensor, seen: Seen, rotary: bool):
        self.config, self.seen, self.rotary = config, seen, rotary
        heads = len(seen[0][1])
        # Columns of the output projection that a key head's results are multiplied by.
        self.projection = output.to(seen[0][0]).T.reshape(heads, -1, output.shape[0])
        self.exact = [self._attended(None, *parts) for parts in seen]

    def learn(self, steps: int, rng: np.random.Generator) -> Learned:
        """Factors, and the mean square error before and after."""
        largest = self.seen[0][1].abs().amax(1).clamp(min=1e-6)  # (key heads, channels)
        if self.rotary:  # a pair of channels has one factor
            largest = torch.maximum(*largest.chunk(2, 1))
        base = (largest / largest.mean(1, keepdim=True)).log2()
        best = torch.zeros_like(base)
        errors = before = self._errors(best)
        for power in POWERS[1:]:
            best, errors = self._better(best, errors, power * base)
        for step in range(steps):
            size = FIRST_CHANGE * (LAST_CHANGE / FIRST_CHANGE) ** (step / steps)
            change = size * rng.standard_normal(best.shape) * (rng.random(best.shape) < SHARE)
            best, errors = self._better(best, errors, best + torch.from_numpy(change).to(best))
        count = sum(q.shape[1] for q, _, _ in self.seen) * self.projection.shape[2]
        after = float(errors.sum() / count)
        return Learned(self._scales(best).tolist(), float(before.sum() / count), after)

    def _better(self, best: Tensor, errors: Tensor, candidate: Tensor) -> tuple[Tensor, Tensor]:
        found = self._errors(candidate)
        wins = found < errors
        return torch.where(wins[:, None], candidate, best), torch.where(wins, found, errors)

    def _scales(self, logarithms: Tensor) -> Tensor:
        return (torch.cat([logarithms] * 2, 1) if self.rotary else logarithms).exp2()

    def _attended(self, scales: Tensor | None, q: Tensor, k: Tensor, v: Tensor) -> Tensor:
        """Attention (heads, T, C) with exact values; Q and K are converted if they have scales."""
        share, position = len(q) // len(k), torch.arange(k.shape[1], device=k.device)
        if scales is None:
            scores = q @ shared_heads(k[None], share)[0].transpose(1, 2)
        else:
            config = self.config
            whole = shared_heads(scales[None], share)[0]
            queries = to_block_float(q / whole, config.group, config.activation_bits)
            scores = key_scores(config, queries[None], (k * scales)[None], position, share)[0]
        return softmax(scores, None, position) @ shared_heads(v[None], share)[0]

    def _errors(self, logarithms: Tensor) -> Tensor:
        scales = self._scales(logarithms)[:, None]
        total = torch.zeros(len(scales), dtype=torch.float64, device=scales.device)
        for parts, exact in zip(self.seen, self.exact, strict=True):
            change = self._attended(scales, *parts) - exact
            by_head = change.unflatten(0, (len(scales), -1)).transpose(1, 2).flatten(2)
            total += (by_head @ self.projection).double().square().sum((1, 2))
        return total


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
