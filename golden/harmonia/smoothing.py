"""Offline smoothing: factors per K channel, folded into the projections before deployment.

Scores do not change when a channel of K is multiplied by a factor and the same channel of Q is
divided by it. Rotary embedding mixes channel c with c + channels/2, so such a pair must share a
factor; in grouped-query attention the query heads of one K head share its factors.
"""

from collections.abc import Sequence

import numpy as np
from numpy.typing import ArrayLike, NDArray

from tilewright.golden.llm.model import Linear, Model
from tilewright.golden.params.block import require


def fold_scales(
    query: ArrayLike, key: ArrayLike, scales: ArrayLike, *, rotary: bool
) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """W_Q / S and W_K * S; projections are (heads * channels, inputs), scales (K heads, channels).

    Refuses factors that are not positive and finite, that a rotary embedding would mix, or whose
    shape does not divide the projections.
    """
    w_q, w_k, s = (np.asarray(x, np.float64) for x in (query, key, scales))
    require(s.ndim == 2, f"scales must have the shape (heads, channels), not {s.shape}")
    channels = s.shape[1]
    require(
        bool(np.all(np.isfinite(s) & (s > 0))), f"scales must be positive and finite, not {s.min()}"
    )
    require(
        len(w_k) == s.size, f"the key projection has {len(w_k)} rows, the scales cover {s.size}"
    )
    require(
        len(w_q) % s.size == 0,
        f"{len(w_q)} rows of the query projection are no multiple of the scales' {s.size}",
    )
    if rotary:
        require(
            channels % 2 == 0, f"rotary embedding needs an even number of channels, not {channels}"
        )
        half = channels // 2
        for c in np.flatnonzero((s[:, :half] != s[:, half:]).any(axis=0))[:1]:
            raise ValueError(
                f"rotary embedding mixes channels {c} and {c + half}: give them one factor"
            )
    shared = np.repeat(s, len(w_q) // s.size, axis=0)  # query heads of one K head are neighbours
    return w_q / shared.reshape(-1, 1), w_k * s.reshape(-1, 1)


def with_scales(model: Model, scales: Sequence[NDArray[np.float32]]) -> Model:
    """The model with scales (K heads, channels) of each layer in its query and key projections."""
    require(
        len(scales) == len(model.layers),
        f"factors of {len(scales)} layers for {len(model.layers)} layers",
    )
    rotary = model.config.rotary
    for index, (layer, factors) in enumerate(zip(model.layers, scales, strict=True)):
        both = layer.query, layer.key
        wide = [x.weight if x.bias is None else np.column_stack([x.weight, x.bias]) for x in both]
        folded = (
            x.astype(np.float32) for x in fold_scales(wide[0], wide[1], factors, rotary=rotary)
        )
        query, key = (
            Linear(x) if linear.bias is None else Linear(np.ascontiguousarray(x[:, :-1]), x[:, -1])
            for x, linear in zip(folded, both, strict=True)
        )
        model = model.with_linears(index, query=query, key=key)
    return model
