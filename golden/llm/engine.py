"""Inference in float32: prefill, cached decode; formats at every site of a GEMM.

A sequence is one array of tokens; its positions count from 0. Sums are numpy's, in float32, so
results agree with other implementations up to the order of summation.
"""

import numpy as np
from numpy.typing import ArrayLike, NDArray

from tilewright.golden.llm.model import Layer, Linear, Model, Norm
from tilewright.golden.llm.sites import PLAIN, Floats, Format, Site
from tilewright.golden.params.block import require

_GELU = np.float32(np.sqrt(2 / np.pi))


def logits(model: Model, tokens: ArrayLike, fmt: Format = PLAIN) -> Floats:
    """Logits (tokens, vocabulary) of the successor of each token of one sequence."""
    return Session(model, fmt).feed(tokens)


def losses(scores: NDArray, tokens: ArrayLike) -> NDArray[np.float64]:
    """Negative log likelihoods of a sequence's tokens but the first, by its logits."""
    rows = scores[:-1] - scores[:-1].max(axis=1, keepdims=True)
    chosen = np.take_along_axis(rows, np.asarray(tokens)[1:, np.newaxis], axis=1)[:, 0]
    found: NDArray[np.float64] = np.log(np.exp(rows).sum(axis=1, dtype=np.float64)) - chosen
    return found


class Session:
    """One sequence with the keys and values of its tokens so far: its prefill, then its decode."""

    def __init__(self, model: Model, fmt: Format = PLAIN):
        self.model = model
        self.fmt = fmt
        self.position = 0  # tokens so far
        self._caches = [_Cache(model) for _ in model.layers]

    def feed(self, tokens: ArrayLike) -> Floats:
        """Logits (tokens, vocabulary) of the next tokens."""
        x = self.hidden(tokens)
        return self.fmt.head(_normed(self.model, x, self.model.final_norm), self.model.head)

    def hidden(self, tokens: ArrayLike) -> Floats:
        """The last layer's result (tokens, width), before the final norm and the head."""
        ids = _checked(self.model, tokens, self.position)
        x = self.model.embedding[ids]
        if self.model.config.model_type == "gemma3_text":
            x *= np.float32(np.sqrt(self.model.config.hidden_size))
        if self.model.positions is not None:
            x = x + self.model.positions[self.position : self.position + len(ids)]
        rotations = _rotations(self.model, self.position, len(ids))
        for index, cache in enumerate(self._caches):
            x = _layer(self.model, index, x, rotations[index], cache, self.fmt)
        self.position += len(ids)
        return x


class _Cache:
    """Keys and values of one layer, (key heads, tokens, channels), with room to grow."""

    def __init__(self, model: Model):
        config = model.config
        self.tokens = 0
        self._room = np.empty((2, config.num_key_value_heads, 0, config.head_dim), np.float32)

    def append(self, keys: Floats, values: Floats) -> tuple[Floats, Floats]:
        """All keys and values, the new ones last."""
        end = self.tokens + keys.shape[1]
        if end > self._room.shape[2]:
            _, heads, size, channels = self._room.shape
            larger = np.empty((2, heads, max(2 * size, end), channels), np.float32)
            larger[:, :, : self.tokens] = self._room[:, :, : self.tokens]
            self._room = larger
        self._room[0, :, self.tokens : end] = keys
        self._room[1, :, self.tokens : end] = values
        self.tokens = end
        return self._room[0, :, :end], self._room[1, :, :end]


def _layer(
    model: Model,
    index: int,
    x: Floats,
    rotation: tuple[Floats, Floats] | None,
    cache: _Cache,
    fmt: Format,
) -> Floats:
    layer = model.layers[index]
    normed = fmt.activation(Site.A_QKV, index, _normed(model, x, layer.attention_norm))
    q, k, v = (
        _heads(model, fmt.multiply(Site.A_QKV, index, normed, linear))
        for linear in (layer.query, layer.key, layer.value)
    )
    extra = layer.gemma
    if extra is not None:
        q, k = _normed(model, q, extra.query_norm), _normed(model, k, extra.key_norm)
    if rotation is not None:
        q, k = _rotated(q, *rotation), _rotated(k, *rotation)
    q *= np.float32(1 / np.sqrt(model.config.head_dim))
    k, v = cache.append(k, v)
    window = None if extra is None else extra.window
    attended = fmt.attend(index, q, k, v, window).swapaxes(0, 1).reshape(len(x), -1)
    attended = fmt.activation(Site.A_O, index, attended)
    added = fmt.multiply(Site.A_O, index, attended, layer.output)
    x = (added if extra is None else _normed(model, added, extra.after_attention)) + x
    normed = fmt.activation(Site.A_U, index, _normed(model, x, layer.feed_norm))
    inner = _inner(fmt, index, layer, normed)
    added = fmt.multiply(Site.A_D, index, fmt.activation(Site.A_D, index, inner), layer.down)
    x += added if extra is None else _normed(model, added, extra.after_feed)
    return x


def _inner(fmt: Format, index: int, layer: Layer, normed: Floats) -> Floats:
    """Inner activations of the feed-forward part: ReLU(up), SiLU(gate) * up, or GELU for SiLU."""

    def product(linear: Linear) -> Floats:
        return fmt.multiply(Site.A_U, index, normed, linear)

    if layer.gate is None:
        inner = product(layer.up)
        return np.maximum(inner, 0, out=inner)
    gated, raised = product(layer.gate), product(layer.up)
    if layer.gemma is not None:  # GELU by its formula with tanh
        gated *= 0.5 * (1 + np.tanh(_GELU * (gated + np.float32(0.044715) * gated**3))) * raised
        return gated
    with np.errstate(over="ignore"):  # e^-g beyond float32's range: the result is -0
        gated /= 1 + np.exp(-gated)
    gated *= raised
    return gated


def _normed(model: Model, x: Floats, norm: Norm) -> Floats:
    centred = x if norm.bias is None else x - x.mean(axis=-1, keepdims=True)
    square = np.einsum("...c,...c->...", centred, centred)[..., np.newaxis]
    square /= np.float32(x.shape[-1])
    result = centred / np.sqrt(square + np.float32(model.config.norm_eps))
    result *= norm.gain
    if norm.bias is not None:
        result += norm.bias
    return result


def _heads(model: Model, x: Floats) -> Floats:
    """(T, heads * C) -> (heads, T, C), contiguous."""
    grid = x.reshape(len(x), -1, model.config.head_dim)
    return np.ascontiguousarray(grid.swapaxes(0, 1))


def _rotations(model: Model, first: int, count: int) -> list[tuple[Floats, Floats] | None]:
    """Rotations of each layer; layers with one base share theirs."""
    if model.config.model_type != "gemma3_text":
        return [_rotation(model, model.config.rope_theta, first, count)] * len(model.layers)
    bases = [layer.gemma.rope_theta for layer in model.layers if layer.gemma is not None]
    made = {base: _rotation(model, base, first, count) for base in set(bases)}
    return [made[base] for base in bases]


def _rotation(model: Model, base: float, first: int, count: int) -> tuple[Floats, Floats] | None:
    """Cosines and sines (count, C/2) of the rotary embedding; None where there is none."""
    config = model.config
    if not config.rotary:
        return None
    frequency = base ** -(np.arange(0, config.head_dim, 2) / config.head_dim)
    if model.rope_factors is not None:
        frequency = frequency / model.rope_factors
    angle = np.arange(first, first + count)[:, np.newaxis] * frequency
    return np.cos(angle).astype(np.float32), np.sin(angle).astype(np.float32)


def _rotated(x: Floats, cosine: Floats, sine: Floats) -> Floats:
    """Channels c and c + C/2 of (heads, T, C), rotated by their token's angle."""
    half = x.shape[2] // 2
    a, b = x[..., :half], x[..., half:]
    result = np.empty_like(x)
    result[..., :half] = a * cosine - b * sine
    result[..., half:] = b * cosine + a * sine
    return result


def _checked(model: Model, tokens: ArrayLike, first: int) -> NDArray[np.int64]:
    ids = np.asarray(tokens)
    require(
        ids.ndim == 1 and ids.size > 0 and np.issubdtype(ids.dtype, np.integer),
        f"tokens are a sequence of at least one integer, not {ids.dtype} of shape {ids.shape}",
    )
    config = model.config
    for extreme in (int(ids.min()), int(ids.max())):
        require(
            0 <= extreme < config.vocab_size,
            f"token {extreme} is not in the vocabulary of {config.vocab_size}",
        )
    end = first + len(ids)
    require(
        end <= config.max_position_embeddings,
        f"{end} tokens exceed the model's context of {config.max_position_embeddings}",
    )
    return ids
