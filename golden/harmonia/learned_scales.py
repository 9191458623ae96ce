"""Harmonia's offline smoothing: factors of K's channels, learned on text, folded into the weights.

A channel of K times a factor and the same channel of Q over it give the same scores, but not the
same conversion errors: factors that even out a group's magnitudes keep more of the small ones. They
are learned layer by layer, so that what attention adds to the block's output changes least when Q
and K are converted. P and V do not depend on the factors and stay exact here.

Conversion is a staircase whose steps themselves move with the factors, which gives gradients
nothing to hold on to. So each step tries a random change of a head's factors and keeps it if the
error falls; heads do not depend on each other and learn side by side. The seed decides everything.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike, NDArray

from tilewright.golden.harmonia.cached_attention import CacheFormat, attend_with_exact_values
from tilewright.golden.harmonia.smoothing import fold_scales
from tilewright.golden.llm.blockfloat import truncate
from tilewright.golden.llm.engine import logits
from tilewright.golden.llm.model import Linear, Model
from tilewright.golden.llm.sites import PLAIN, Floats, Format
from tilewright.golden.params.block import require
from tilewright.golden.params.harmonia import ACTIVATION_BITS

Scales = NDArray[np.float32]  # (key heads, channels)

# Powers of a channel's largest magnitude that are tried before the first step.
POWERS = (0.0, -0.25, -0.5, -0.75, -1.0)
SHARE = 0.25  # of the channels change in a step
FIRST_CHANGE, LAST_CHANGE = 0.6, 0.1  # standard deviation of a change, in powers of two


@dataclass(frozen=True)
class Learned:
    """Factors of every layer, and the error with and without them on the calibration text."""

    scales: tuple[Scales, ...]
    before: tuple[float, ...]
    after: tuple[float, ...]


class _Recorder(Format):
    """Keeps what attention receives, one sequence after the other."""

    def __init__(self) -> None:
        self.seen: dict[int, list[tuple[Floats, Floats, Floats]]] = {}

    def attend(
        self, layer: int, q: Floats, k: Floats, v: Floats, window: int | None = None
    ) -> Floats:
        self.seen.setdefault(layer, []).append((q.copy(), k.copy(), v.copy()))
        return super().attend(layer, q, k, v, window)


def learn_scales(
    model: Model,
    sequences: Sequence[ArrayLike],
    cache: CacheFormat,
    *,
    steps: int = 200,
    seed: int = 0,
    progress: Callable[[int, int], None] | None = None,
) -> Learned:
    """Factors for every layer; ``sequences`` are the calibration text, cut into sequences.

    ``progress`` is called after every layer.
    """
    require(steps >= 0, f"steps must be at least 0, not {steps!r}")
    require(len(sequences) > 0, "no calibration text")
    recorder = _Recorder()
    for tokens in sequences:
        logits(model, tokens, recorder)
    found = []
    for index, layer in enumerate(model.layers):
        rng = np.random.default_rng((seed, index))
        problem = LayerFactors(
            cache,
            layer.output.weight,
            recorder.seen.pop(index),
            key_heads=model.config.num_key_value_heads,
            rotary=model.config.rotary,
        )
        found.append(problem.learn(steps, rng))
        if progress is not None:
            progress(index + 1, len(model.layers))
    scales, before, after = zip(*found, strict=True)
    return Learned(scales, before, after)


def with_scales(model: Model, scales: Sequence[Scales]) -> Model:
    """The model whose query and key projections have the factors in them."""
    require(
        len(scales) == len(model.layers),
        f"{len(scales)} layers of factors meet {len(model.layers)} layers",
    )
    rotary = model.config.rotary
    for index, (layer, factors) in enumerate(zip(model.layers, scales, strict=True)):
        query, key = fold_scales(layer.query.weight, layer.key.weight, factors, rotary=rotary)
        biases: list[NDArray | None] = [None, None]
        if layer.query.bias is not None and layer.key.bias is not None:
            columns = (layer.query.bias[:, np.newaxis], layer.key.bias[:, np.newaxis])
            biases = [column[:, 0] for column in fold_scales(*columns, factors, rotary=rotary)]
        q, k = (
            Linear(weight.astype(np.float32), None if bias is None else bias.astype(np.float32))
            for weight, bias in zip((query, key), biases, strict=True)
        )
        model = model.with_linears(index, query=q, key=k)
    return model


class LayerFactors:
    """One layer: the error of converted Q and K in what attention adds to the block's output.

    ``output`` is the output projection, ``seen`` are queries, keys and values of each sequence.
    """

    def __init__(
        self,
        cache: CacheFormat,
        output: Floats,
        seen: list[tuple[Floats, Floats, Floats]],
        *,
        key_heads: int,
        rotary: bool,
    ):
        self.cache = cache
        self.seen = seen
        self.rotary = rotary
        # Columns of the output projection that a key head's results meet: (key heads, ..., width).
        self.projection = output.T.reshape(key_heads, -1, output.shape[0])
        self.exact = [PLAIN.attend(0, *parts) for parts in seen]

    def learn(self, steps: int, rng: np.random.Generator) -> tuple[Scales, float, float]:
        """Factors, and the mean square error before and after."""
        _, keys, _ = self.seen[0]
        largest = np.maximum(np.abs(keys).max(axis=1), np.float32(1e-6))  # (key heads, channels)
        if self.rotary:  # a pair of channels has one factor
            first, second = np.split(largest, 2, axis=1)
            largest = np.maximum(first, second)
        base = np.log2(largest / largest.mean(axis=1, keepdims=True))
        best = np.zeros_like(base)
        errors = before = self._errors(best)
        for power in POWERS[1:]:
            best, errors = self._better(best, errors, power * base)
        for step in range(steps):
            size = FIRST_CHANGE * (LAST_CHANGE / FIRST_CHANGE) ** (step / steps)
            change = size * rng.standard_normal(best.shape) * (rng.random(best.shape) < SHARE)
            best, errors = self._better(best, errors, best + change.astype(np.float32))
        count = sum(q.shape[1] for q, _, _ in self.seen) * self.projection.shape[2]
        return self._scales(best), float(before.sum() / count), float(errors.sum() / count)

    def _better(self, best: Floats, errors: NDArray, candidate: Floats) -> tuple[Floats, NDArray]:
        """Head by head whichever has the smaller error."""
        found = self._errors(candidate)
        wins = found < errors
        return np.where(wins[:, np.newaxis], candidate, best), np.where(wins, found, errors)

    def _scales(self, logarithms: Floats) -> Scales:
        whole = np.concatenate([logarithms] * 2, axis=1) if self.rotary else logarithms
        return np.exp2(whole).astype(np.float32)

    def _errors(self, logarithms: Floats) -> NDArray[np.float64]:
        """Sum of squares for each key head."""
        scales = self._scales(logarithms)[:, np.newaxis]
        total = np.zeros(len(scales))
        for (q, k, v), exact in zip(self.seen, self.exact, strict=True):
            shared = np.repeat(scales, len(q) // len(k), axis=0)
            queries = truncate(q / shared, self.cache.group, ACTIVATION_BITS)
            change = attend_with_exact_values(self.cache, queries, k * scales, v)
            change -= exact
            tokens = change.shape[1]
            by_head = change.reshape(len(k), -1, tokens, change.shape[2]).swapaxes(1, 2)
            added = by_head.reshape(len(k), tokens, -1) @ self.projection
            total += np.einsum("htw,htw->h", added, added, dtype=np.float64)
        return total
