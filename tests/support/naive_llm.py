"""The models once more, in float64 and scalar by scalar where that is bearable."""

from math import cos, exp, sin, sqrt

import numpy as np

from tilewright.golden.llm.engine import logits, losses
from tilewright.golden.llm.sites import PLAIN


def perplexity(model, tokens, fmt=PLAIN, *, window):
    """Perplexity of the engine, in sequences of ``window`` tokens; the rest is left out."""
    ids = np.asarray(tokens)
    windows = ids[: len(ids) // window * window].reshape(-1, window)
    return float(np.exp(np.mean([losses(logits(model, each, fmt), each) for each in windows])))


def naive_logits(model, tokens):
    """Logits (tokens, vocabulary), every token from all tokens before it, without any cache."""
    c = model.config
    x = [np.array(model.embedding[t], np.float64) for t in tokens]
    if c.model_type == "opt":
        x = [row + model.positions[p] for p, row in enumerate(x)]
    for layer in model.layers:
        x = [row + a for row, a in zip(x, attention(model, layer, x), strict=True)]
        x = [row + feed_forward(model, layer, row) for row in x]
    return np.array([model.head.astype(float) @ norm(model, model.final_norm, row) for row in x])


def norm(model, n, row):
    if n.bias is None:
        return row / sqrt(np.mean(row**2) + model.config.norm_eps) * n.gain
    centred = row - np.mean(row)
    return centred / sqrt(np.mean(centred**2) + model.config.norm_eps) * n.gain + n.bias


def apply(linear, row):
    result = linear.weight.astype(float) @ row
    return result if linear.bias is None else result + linear.bias


def rotate(model, head, position):
    """Complex numbers of channels c and c + C/2, turned by position * base^(-2c/C)."""
    half = len(head) // 2
    result = np.empty(len(head))
    for c in range(half):
        angle = position * model.config.rope_theta ** (-2 * c / len(head))
        if model.rope_factors is not None:
            angle /= float(model.rope_factors[c])
        real, imaginary = head[c], head[c + half]
        result[c] = real * cos(angle) - imaginary * sin(angle)
        result[c + half] = real * sin(angle) + imaginary * cos(angle)
    return result


def attention(model, layer, x):
    c = model.config
    normed = [norm(model, layer.attention_norm, row) for row in x]

    def heads(linear, rotary):
        result = []
        for position, row in enumerate(normed):
            parts = np.split(apply(linear, row), linear.weight.shape[0] // c.head_dim)
            if rotary and c.model_type == "llama":
                parts = [rotate(model, part, position) for part in parts]
            result.append(parts)
        return result

    queries, keys, values = heads(layer.query, 1), heads(layer.key, 1), heads(layer.value, 0)
    for t, parts in enumerate(queries):
        mixed = []
        for h, q in enumerate(parts):
            g = h * c.num_key_value_heads // c.num_attention_heads
            scores = [q @ keys[s][g] / sqrt(c.head_dim) for s in range(t + 1)]
            powers = [exp(score - max(scores)) for score in scores]
            mixed.append(sum(p * values[s][g] for s, p in enumerate(powers)) / sum(powers))
        yield apply(layer.output, np.concatenate(mixed))


def feed_forward(model, layer, row):
    normed = norm(model, layer.feed_norm, row)
    up = apply(layer.up, normed)
    if model.config.model_type == "opt":
        return apply(layer.down, np.maximum(up, 0))
    gate = apply(layer.gate, normed)
    return apply(layer.down, gate / (1 + np.exp(-gate)) * up)
