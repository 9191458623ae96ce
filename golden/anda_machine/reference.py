"""Models of the accelerator that know no machine.

:func:`reference` has the image's integers as weights and Anda activations before every product, but
adds and multiplies in float32 instead of fp16, and uses the true functions that the vector unit
approximates. :class:`RoundedModel` rounds where the accelerator rounds. Its formulas work on whole
tensors in numpy's float32 and float16, without instructions or buffers: an independent reference,
bit for bit, for compiler, programs and machine.
"""

import numpy as np
from numpy.typing import ArrayLike, NDArray

from tilewright.golden.llm.engine import Session
from tilewright.golden.llm.formats import AndaFormat, truncate
from tilewright.golden.llm.model import Linear, Model
from tilewright.golden.machine.fast_vector import table
from tilewright.golden.params.anda_machine import AndaParams, Mantissas
from tilewright.golden.params.vector import Operation
from tilewright.golden.weights import Weights

NORM_SHARE = 2.0**-6  # scale of a mean square, so that it is finite in fp16; gains have its root
LEAST = np.float32(-60000.0)  # lower limit of a bank's largest score, for banks without tokens
_COLUMNS = 2048  # outputs of a product at a time: the sums of a group stay in a core's cache

Floats = NDArray[np.float32]


def reference(params: AndaParams, mantissas: Mantissas, model: Model) -> Session:
    """One sequence; ``model`` has the weights of the image."""
    m = mantissas
    fmt = AndaFormat((m.qkv, m.o, m.u, m.d), params.group, head_bits=m.qkv)
    return Session(model, fmt)


def _half(x: NDArray) -> Floats:
    """The nearest fp16 values, as float32."""
    return x.astype(np.float16).astype(np.float32)


def _function(function: Operation, x: Floats) -> Floats:
    """An approximated function of fp16 values, as the vector unit has it."""
    return table(function)[x.astype(np.float16).view(np.uint16)].view(np.float16).astype(np.float32)


def _halves(weights: Weights, rows: slice, group: int) -> tuple[Floats, Floats]:
    """Some outputs' weights of 4 bits, and a scale for every group of them.

    A weight of 8 bits is 16 * high + low; all high halves of an output precede the low ones.
    """
    scales = weights.scales[rows].view(np.float16).astype(np.float32)
    scales = np.repeat(scales, weights.group // group, axis=1)[:, : -(-weights.inputs // group)]
    values = weights.values[rows].astype(np.float32)
    if weights.fmt.bits == 4:
        return values, scales
    high = np.floor((values + 8) / 16)
    both = np.concatenate([high, values - 16 * high], axis=1)
    return both, np.concatenate([_half(16 * scales), scales], axis=1)


class RoundedModel:
    """One sequence; ``model`` and the integers of its ``head`` are what the image holds."""

    def __init__(self, params: AndaParams, mantissas: Mantissas, model: Model, head: Weights):
        self.mantissas, self.model, self.head = mantissas, model, head
        self._group, self._banks, self._lanes = params.group, params.rows, params.vector.row_lanes
        self._position = 0
        shape = (model.config.num_key_value_heads, 0, model.config.head_dim)
        self._cache = [[np.empty(shape, np.float32)] * 2 for _ in model.layers]

    def feed(self, tokens: ArrayLike) -> Floats:
        """Logits (tokens, vocabulary) of the next tokens."""
        ids, m = np.asarray(tokens), self.mantissas
        model = self.model
        with np.errstate(all="ignore"):
            x = _half(model.embedding[ids])
            for layer, cache in zip(model.layers, self._cache, strict=True):
                normed = self._compressed(self._norm(x, layer.attention_norm.gain), m.qkv)
                q, k, v = (
                    self._heads(self._product(normed, linear))
                    for linear in (layer.query, layer.key, layer.value)
                )
                q, k = self._rotated(q), self._rotated(k)
                for number, new in enumerate((k, v)):
                    cache[number] = np.concatenate([cache[number], new], axis=1)
                attended = self._attend(q, *cache).swapaxes(0, 1).reshape(len(ids), -1)
                added = self._product(self._compressed(attended, m.o), layer.output)
                x = _half(x + added)
                normed = self._compressed(self._norm(x, layer.feed_norm.gain), m.u)
                assert layer.gate is not None
                inner = self._gated(self._product(normed, layer.gate), normed, layer.up)
                added = self._product(self._compressed(inner, m.d), layer.down)
                x = _half(x + added)
            self._position += len(ids)
            normed = self._norm(x, model.final_norm.gain)
            hidden = self._compressed(normed, m.qkv)
            return self._multiplied(hidden, self.head)

    # Arithmetic.

    def _summed(self, terms: Floats, scale: float = 1.0) -> Floats:
        """Sums along the last axis as a row of lanes adds them, times an fp16 ``scale``."""
        padding = -terms.shape[-1] % self._lanes
        terms = np.pad(terms, [(0, 0)] * (terms.ndim - 1) + [(0, padding)])
        words = terms.reshape(*terms.shape[:-1], -1, self._lanes)
        sums = np.zeros((*words.shape[:-2], self._lanes), np.float32)
        for word in range(words.shape[-2]):
            sums += words[..., word, :]
        while sums.shape[-1] > 1:
            sums = sums[..., 0::2] + sums[..., 1::2]
        return _half(sums[..., 0].astype(np.float64) * np.float64(np.float16(scale)))

    def _compressed(self, x: Floats, mantissa: int) -> Floats:
        return truncate(np.ascontiguousarray(x), self._group, mantissa)

    # Parts of a layer.

    def _norm(self, x: Floats, gain: Floats) -> Floats:
        eps = self.model.config.norm_eps
        square = self._summed(x * x, NORM_SHARE / x.shape[1])[:, np.newaxis]
        square = _half(square + np.float32(np.float16(eps * NORM_SHARE)))
        root = _function(Operation.RECIPROCAL_ROOT, square)
        scaled = _half(gain.astype(np.float64) * np.sqrt(NORM_SHARE))
        return _half(_half(x * root) * scaled)

    def _product(self, x: Floats, linear: Linear) -> Floats:
        assert linear.integers is not None
        result = self._multiplied(x, linear.integers)
        if linear.bias is None:
            return result
        return _half(result + _half(linear.bias))

    def _multiplied(self, x: Floats, weights: Weights) -> Floats:
        """Sums of a group are exact in float32; scaled, they are added one after the other."""
        group = self._group
        result = np.empty((len(x), weights.outputs), np.float32)
        doubled = np.concatenate([x] * (weights.fmt.bits // 4), axis=1)
        for first in range(0, weights.outputs, _COLUMNS):
            rows = slice(first, first + _COLUMNS)
            values, scales = _halves(weights, rows, group)
            total = np.zeros((len(x), len(values)), np.float32)
            for k in range(scales.shape[1]):
                piece = slice(k * group, (k + 1) * group)
                total += _half(doubled[:, piece] @ values[:, piece].T) * scales[:, k]
            result[:, rows] = _half(total)
        return result

    def _heads(self, x: Floats) -> Floats:
        grid = x.reshape(len(x), -1, self.model.config.head_dim)
        return np.ascontiguousarray(grid.swapaxes(0, 1))

    def _rotated(self, x: Floats) -> Floats:
        """Channels c and c + C/2 of (heads, tokens, C), by the angle of their token."""
        config, half = self.model.config, x.shape[2] // 2
        frequency = config.rope_theta ** -(np.arange(0, config.head_dim, 2) / config.head_dim)
        if self.model.rope_factors is not None:
            frequency = frequency / self.model.rope_factors
        angle = (self._position + np.arange(x.shape[1]))[:, np.newaxis] * frequency

        cosine, sine = _half(np.cos(angle)), _half(np.sin(angle))
        a, b = x[..., :half], x[..., half:]
        return np.concatenate(
            [
                _half(_half(a * cosine) - _half(b * sine)),
                _half(_half(b * cosine) + _half(a * sine)),
            ],
            axis=2,
        )

    def _gated(self, gate: Floats, normed: Floats, up: Linear) -> Floats:
        power = _function(Operation.EXPONENTIAL, -gate)
        share = _function(Operation.RECIPROCAL, _half(power + np.float32(1)))
        return _half(_half(gate * share) * self._product(normed, up))

    # Attention.

    def _attend(self, q: Floats, keys: Floats, values: Floats) -> Floats:
        """Causal attention (heads, tokens, C)."""
        scale = self.model.config.head_dim**-0.5
        share = len(q) // len(keys)
        seen = keys.shape[1]
        tiles = -(-seen // self._banks)
        room = [(0, tiles * self._banks - seen), (0, 0)]
        last = np.arange(seen - q.shape[1], seen)[:, np.newaxis]
        hidden = np.arange(tiles * self._banks) > last  # (tokens, tiles * banks)
        results = np.empty_like(q)
        for head, query in enumerate(q):
            k, v = (np.pad(x[head // share], room) for x in (keys, values))
            scores = self._scores(query, k, scale)
            scores[hidden] = -np.inf
            grid = scores.reshape(len(query), tiles, self._banks)
            results[head] = self._weighed(grid, v.reshape(tiles, self._banks, -1))
        return results

    def _scores(self, q: Floats, k: Floats, scale: float) -> Floats:
        """(tokens, keys): every lane adds its channels, then the lanes are added."""
        lanes = self._lanes
        sums = np.zeros((lanes, len(q), len(k)), np.float32)
        for channel in range(q.shape[1]):
            sums[channel % lanes] += np.multiply.outer(q[:, channel], k[:, channel])
        while len(sums) > 1:
            sums = sums[0::2] + sums[1::2]
        return _half(sums[0].astype(np.float64) * np.float64(np.float16(scale)))

    def _weighed(self, scores: Floats, values: Floats) -> Floats:
        """Softmax and weighted sum within each bank, then across banks."""
        top = np.maximum(scores.max(axis=1), LEAST)  # (tokens, banks)
        powers = _function(Operation.EXPONENTIAL, _half(scores - top[:, np.newaxis]))
        sums = self._summed(powers.swapaxes(1, 2))
        part = np.zeros((len(scores), *values.shape[1:]), np.float32)
        for tile, value in enumerate(values):
            part += powers[:, tile, :, np.newaxis] * value
        part = _half(part)
        apart = _half(top - top.max(axis=1, keepdims=True))
        weight = _function(Operation.EXPONENTIAL, apart)
        total = self._summed(weight * sums)[:, np.newaxis]
        weight = _half(weight * _function(Operation.RECIPROCAL, total))
        result = np.zeros((len(scores), values.shape[2]), np.float32)
        for bank in range(self._banks):
            result += weight[:, bank, np.newaxis] * part[:, bank]
        return _half(result)
