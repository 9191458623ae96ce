"""Folded scales leave every score as it was."""

import numpy as np
import pytest

from tilewright.golden.harmonia.smoothing import fold_scales, with_scales
from tilewright.golden.llm.engine import logits
from tilewright.golden.llm.tiny import tiny_model

HEADS, QUERY_HEADS, CHANNELS, INPUTS = 2, 6, 8, 5


def rotated(x, position):
    """Rotary embedding of (heads, channels): channel c with c + half."""
    half = x.shape[1] // 2
    angle = position / 10.0 ** np.arange(half)
    a, b = x[:, :half], x[:, half:]
    return np.concatenate(
        [a * np.cos(angle) - b * np.sin(angle), a * np.sin(angle) + b * np.cos(angle)], axis=1
    )


@pytest.mark.parametrize("rotary", [False, True])
def test_scores_are_unchanged(rotary):
    rng = np.random.default_rng(4)
    w_q = rng.normal(size=(QUERY_HEADS * CHANNELS, INPUTS))
    w_k = rng.normal(size=(HEADS * CHANNELS, INPUTS))
    # Powers of two: the products are exact, so the scores are equal in every bit.
    scales = np.exp2(rng.integers(-3, 4, (HEADS, CHANNELS)))
    if rotary:
        scales[:, CHANNELS // 2 :] = scales[:, : CHANNELS // 2]
    x, y = rng.normal(size=(2, INPUTS))

    def scores(query, key):
        q = (query @ x).reshape(QUERY_HEADS, CHANNELS)
        k = (key @ y).reshape(HEADS, CHANNELS)
        if rotary:
            q, k = rotated(q, 3), rotated(k, 7)
        return (q * np.repeat(k, QUERY_HEADS // HEADS, axis=0)).sum(axis=1)

    folded = fold_scales(w_q, w_k, scales, rotary=rotary)
    np.testing.assert_array_equal(scores(*folded), scores(w_q, w_k))
    assert not np.array_equal(folded[1], w_k)


@pytest.mark.parametrize(
    ("rows", "scales", "rotary", "message"),
    [
        ((8, 4), np.ones(4), False, r"scales must have the shape \(heads, channels\), not \(4,\)"),
        ((8, 4), [[1, 0, 1, 1]], False, r"scales must be positive and finite, not 0.0"),
        ((8, 8), [[1, 1, 1, 1]], False, "the key projection has 8 rows, the scales cover 4"),
        ((6, 4), [[1, 1, 1, 1]], False, "6 rows of the query projection are no multiple"),
        ((8, 4), [[1, 2, 1, 1]], True, "rotary embedding mixes channels 1 and 3: give them one"),
        ((3, 3), [[1, 1, 1]], True, "rotary embedding needs an even number of channels, not 3"),
    ],
)
def test_refusals(rows, scales, rotary, message):
    with pytest.raises(ValueError, match=f"^{message}"):
        fold_scales(np.ones((rows[0], 2)), np.ones((rows[1], 2)), scales, rotary=rotary)


@pytest.mark.parametrize("family", ["llama", "opt"])
def test_factors_that_are_powers_of_two_change_no_bit_of_a_model(family):
    model = tiny_model(family)
    config = model.config
    rng = np.random.default_rng(2)
    powers = rng.integers(
        -3, 4, (config.num_hidden_layers, config.num_key_value_heads, config.head_dim)
    )
    if family == "llama":
        powers[..., config.head_dim // 2 :] = powers[..., : config.head_dim // 2]
    folded = with_scales(model, list(np.exp2(powers).astype(np.float32)))
    tokens = rng.integers(0, config.vocab_size, 48)
    assert not np.array_equal(folded.layers[0].key.weight, model.layers[0].key.weight)
    assert np.array_equal(logits(folded, tokens), logits(model, tokens))
    with pytest.raises(ValueError, match=r"^factors of 0 layers for 2 layers$"):
        with_scales(model, [])
