"""Perplexity by PyTorch, on a GPU where there is one: ``golden.llm.engine``, faster.

Conversions are the same bits for the same values, since all of their steps are exact or rounded by
IEEE rules. Sums are float32 in another order, so perplexities agree to about five digits without a
format; with one, truncations that tip over make it about three.

Attention with Harmonia's cache is written anew, as whole matrices with masks in place of blocks: an
independent second form of ``tilewright.golden.harmonia.cached_attention``.
"""

from collections.abc import Callable
from typing import TypeAlias

import numpy as np
import torch
from numpy.typing import ArrayLike

from tilewright.golden.harmonia.cached_attention import CacheFormat, without_offsets
from tilewright.golden.harmonia.llm_format import HarmoniaFormat
from tilewright.golden.llm.engine import WINDOW, Evaluation
from tilewright.golden.llm.formats import BlockSites
from tilewright.golden.llm.model import Linear, Model, Norm
from tilewright.golden.llm.sites import PLAIN, Format, Site

__all__ = ["TorchEvaluation", "device_name"]

Tensor: TypeAlias = torch.Tensor
EXPONENT = 0x7F800000  # of a float32
SMALLEST_NORMAL, LARGEST = 2.0**-14, 65504.0  # of fp16
HEAD_ROWS = 1024  # tokens whose logits are held at a time


def _device() -> torch.device:
    return torch.device("cuda" if torch.cuda.is_available() else "cpu")


def device_name() -> str:
    """Version of PyTorch and what it computes on."""
    where = torch.cuda.get_device_name() if torch.cuda.is_available() else "processor"
    return f"PyTorch {torch.__version__.partition('+')[0]}, {where}"


def truncate(values: Tensor, group: int, mantissa_bits: int) -> Tensor:
    """Block floating point along the last axis: ``tilewright.golden.llm.blockfloat.truncate``."""
    length = values.shape[-1]
    padded = torch.nn.functional.pad(to_fp16(values), (0, -length % group))
    groups = padded.unflatten(-1, (-1, group))
    step = mantissa_step(groups.abs().amax(-1, keepdim=True), mantissa_bits)
    return ((groups / step).trunc() * step).flatten(-2)[..., :length]


def to_fp16(values: Tensor) -> Tensor:
    """Round to fp16; what is too large becomes the largest fp16 number."""
    return values.clamp(-LARGEST, LARGEST).half().float()


def mantissa_step(largest: Tensor, mantissa_bits: int) -> Tensor:
    """The step of a mantissa of ``mantissa_bits`` bits in a group whose largest value is given."""
    power = (largest.view(torch.int32) & EXPONENT).view(torch.float32)
    return power.clamp(min=SMALLEST_NORMAL) * 2.0 ** (1 - mantissa_bits)


class TorchEvaluation(Evaluation):
    """Takes the formats of ``tilewright.golden.llm.formats`` and ``PLAIN``."""

    def __init__(self, model: Model, tokens: ArrayLike, window: int = WINDOW):
        super().__init__(model, tokens, window)
        # GEMMs in full float32: the shorter formats that GPUs prefer have 10 mantissa bits.
        torch.backends.cuda.matmul.allow_tf32 = False
        self.device = _device()
        self._tensors: dict[int, Tensor] = {}
        half = torch.arange(0, model.config.head_dim, 2, dtype=torch.float64)
        frequency = model.config.rope_theta ** -(half / model.config.head_dim)
        if model.rope_factors is not None:
            frequency = frequency / torch.from_numpy(model.rope_factors.astype(np.float64))
        angle = torch.arange(window, dtype=torch.float64)[:, None] * frequency
        self._cosine = angle.cos().float().to(self.device)
        self._sine = angle.sin().float().to(self.device)

    def perplexity(
        self, fmt: Format = PLAIN, progress: Callable[[int, int], None] | None = None
    ) -> float:
        total = 0.0
        for k in range(len(self.sequences)):
            total += float(self.scores(k, fmt)[0].sum())
            if progress is not None:
                progress(k + 1, len(self.sequences))
        return float(np.exp(total / (self.sequences.size - len(self.sequences))))

    @torch.inference_mode()
    def scores(self, window: int, fmt: Format = PLAIN) -> tuple[np.ndarray, np.ndarray]:
        """Score the tokens of one window but its first.

        The result is the negative log likelihood of each, and whether it was the likeliest.
        """
        if fmt is not PLAIN and not isinstance(fmt, BlockSites | HarmoniaFormat):
            raise ValueError(f"no PyTorch form of {type(fmt).__name__}")
        ids = torch.from_numpy(np.ascontiguousarray(self.sequences[window])).to(self.device)
        x = self._on(self.model.embedding)[ids]
        if self.model.positions is not None:
            x = x + self._on(self.model.positions)[: self.window]
        for index in range(len(self.model.layers)):
            x = self._layer_of(index, x, fmt)
        losses, hits = self._scored(x[:-1], ids[1:])
        return losses.cpu().numpy(), hits.cpu().numpy()

    def _on(self, array: np.ndarray) -> Tensor:
        """The array on the device, where it is copied once."""
        key = id(array)
        if key not in self._tensors:
            self._tensors[key] = torch.from_numpy(np.ascontiguousarray(array)).to(self.device)
        return self._tensors[key]

    def _linear(self, linear: Linear, values: Tensor) -> Tensor:
        result = values @ self._on(linear.weight).T
        return result if linear.bias is None else result + self._on(linear.bias)

    def _norm(self, norm: Norm, x: Tensor) -> Tensor:
        centred = x if norm.bias is None else x - x.mean(-1, keepdim=True)
        square = centred.square().mean(-1, keepdim=True)
        result = centred / (square + self.model.config.norm_eps).sqrt() * self._on(norm.gain)
        return result if norm.bias is None else result + self._on(norm.bias)

    def _layer_of(self, index: int, x: Tensor, fmt: Format) -> Tensor:
        layer, config = self.model.layers[index], self.model.config
        normed = _converted(fmt, Site.A_QKV, self._norm(layer.attention_norm, x))
        q, k, v = (
            self._linear(part, normed).unflatten(-1, (-1, config.head_dim)).transpose(0, 1)
            for part in (layer.query, layer.key, layer.value)
        )
        if config.rotary:
            q, k = self._rotated(q), self._rotated(k)
        q = q * float(np.float32(1 / np.sqrt(config.head_dim)))
        attended = _attend(fmt, q, k, v).transpose(0, 1).flatten(1)
        x = x + self._linear(layer.output, _converted(fmt, Site.A_O, attended))
        normed = _converted(fmt, Site.A_U, self._norm(layer.feed_norm, x))
        inner = self._linear(layer.up, normed)
        if layer.gate is None:
            inner = inner.relu()
        else:
            inner = torch.nn.functional.silu(self._linear(layer.gate, normed)) * inner
        return x + self._linear(layer.down, _converted(fmt, Site.A_D, inner))

    def _rotated(self, x: Tensor) -> Tensor:
        a, b = x.chunk(2, -1)
        cosine, sine = self._cosine, self._sine
        return torch.cat([a * cosine - b * sine, b * cosine + a * sine], -1)

    def _scored(self, x: Tensor, targets: Tensor) -> tuple[Tensor, Tensor]:
        normed = self._norm(self.model.final_norm, x)
        losses, hits = [], []
        for rows, wanted in zip(normed.split(HEAD_ROWS), targets.split(HEAD_ROWS), strict=True):
            scores = rows @ self._on(self.model.head).T
            losses.append(scores.logsumexp(-1) - scores.gather(-1, wanted[:, None])[:, 0])
            hits.append(scores.argmax(-1) == wanted)
        return torch.cat(losses).double(), torch.cat(hits)


def _converted(fmt: Format, site: Site, values: Tensor) -> Tensor:
    if not isinstance(fmt, BlockSites | HarmoniaFormat):
        return values
    length = fmt.lengths.get(site)
    return values if length is None else truncate(values, fmt.group, length)


def _attend(fmt: Format, q: Tensor, k: Tensor, v: Tensor) -> Tensor:
    if isinstance(fmt, HarmoniaFormat):
        return _attend_cache(fmt, q, k, v)
    q, k = _converted(fmt, Site.Q, q), _converted(fmt, Site.K, k)
    v = _converted(fmt, Site.V, v.transpose(1, 2)).transpose(1, 2)
    share = len(q) // len(k)
    weights = _softmax(q @ _shared(k, share).transpose(1, 2))
    return _converted(fmt, Site.P, weights) @ _shared(v, share)


def _shared(x: Tensor, share: int) -> Tensor:
    """A key head for each of the query heads that meet it."""
    return x.repeat_interleave(share, 0)


def _softmax(scores: Tensor) -> Tensor:
    tokens = scores.shape[-1]
    later = torch.ones(tokens, tokens, dtype=torch.bool, device=scores.device).triu(1)
    return scores.masked_fill(later, -torch.inf).softmax(-1)


def _attend_cache(fmt: HarmoniaFormat, q: Tensor, k: Tensor, v: Tensor) -> Tensor:
    """All tokens of a sequence at once; query t meets the cache of t + 1 tokens."""
    cache = fmt.cache
    tokens, share = q.shape[1], len(q) // len(k)
    q = truncate(q, fmt.group, fmt.query_bits)
    position = torch.arange(tokens, device=q.device)
    length = position[:, None] + 1  # of the sequence that a query ends
    recent_key = (position < cache.initial) | (position >= length - cache.local)
    k = _without_offsets(cache, k)
    scores = torch.where(
        recent_key,
        *(
            q @ _shared(truncate(k, cache.group, bits), share).transpose(1, 2)
            for bits in cache.key_bits
        ),
    )
    weights = truncate(_softmax(scores), fmt.group, fmt.weight_bits)
    return weighted_values(cache, weights, v)


def weighted_values(cache: CacheFormat, weights: Tensor, v: Tensor) -> Tensor:
    """Weights (heads, S, S) times the values (key heads, S, C) that each query finds."""
    tokens, share = v.shape[1], len(weights) // len(v)
    position = torch.arange(tokens, device=v.device)
    end = (position // cache.group + 1) * cache.group  # of a token's group
    own = position[:, None] // cache.group == position // cache.group
    recent = (end <= cache.initial) | (end > position[:, None] + 1 - cache.local)
    result = _own_groups(cache, weights, v, share)
    for chosen, bits in zip((recent, ~recent), cache.value_bits, strict=True):
        form = truncate(v.transpose(1, 2), cache.group, bits).transpose(1, 2)
        result += weights.masked_fill(~chosen | own, 0) @ _shared(form, share)
    return result


def _own_groups(cache: CacheFormat, weights: Tensor, v: Tensor, share: int) -> Tensor:
    """Each query with its own group of values, at the exponents the group had by then."""
    group, tokens = cache.group, v.shape[1]
    padding = -tokens % group
    groups = torch.nn.functional.pad(to_fp16(v), (0, 0, 0, padding)).unflatten(1, (-1, group))
    step = mantissa_step(groups.abs().cummax(2).values, cache.value_bits[0])
    if cache.local == 0:  # a group is finished and old at once
        first = cache.initial // group
        step[:, first:, -1] *= 2.0 ** (cache.value_bits[0] - cache.value_bits[1])
    # (key heads, groups, queries, tokens, channels)
    forms = (groups[:, :, None] / step[:, :, :, None]).trunc() * step[:, :, :, None]
    square = torch.nn.functional.pad(weights, (0, padding, 0, padding))
    blocks = square.unflatten(1, (-1, group)).unflatten(3, (-1, group)).diagonal(dim1=1, dim2=3)
    mine = blocks.movedim(-1, 1).unflatten(0, (-1, share))  # (..., share, groups, queries, tokens)
    total = torch.einsum("hsgqt,hgqtc->hsgqc", mine, forms)
    return total.flatten(0, 1).flatten(1, 2)[:, :tokens]


def _without_offsets(cache: CacheFormat, keys: Tensor) -> Tensor:
    """Keys without offsets, computed by numpy: PyTorch rounds float64 to fp16 twice."""
    if cache.offset_channels == 0:
        return keys
    return torch.from_numpy(without_offsets(cache, keys.cpu().numpy())).to(keys.device)
