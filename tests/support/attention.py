"""Causal attention in float64."""

import numpy as np


def softmax_attention(q, k, v):
    """The last tokens' queries (heads, tokens, channels) over k and v (kv heads, context, ...)."""
    q, k, v = (x.astype(np.float64) for x in (q, k, v))
    share, context, tokens = len(q) // len(k), k.shape[1], q.shape[1]
    hidden = np.arange(context) > np.arange(context - tokens, context)[:, np.newaxis]
    scores = q @ np.repeat(k, share, axis=0).swapaxes(1, 2) / np.sqrt(q.shape[2])
    scores[:, hidden] = -np.inf
    powers = np.exp(scores - scores.max(axis=2, keepdims=True))
    return powers / powers.sum(axis=2, keepdims=True) @ np.repeat(v, share, axis=0)
