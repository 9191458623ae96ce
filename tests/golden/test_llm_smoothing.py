"""Factors of K's channels: folded exactly, learned so that the error falls."""

import numpy as np
import pytest

from tilewright.golden.harmonia.cached_attention import CacheFormat
from tilewright.golden.harmonia.learned_scales import learn_scales, with_scales
from tilewright.golden.llm.engine import logits
from tilewright.golden.llm.tiny import tiny_model

CACHE = CacheFormat(group=8, initial=8, local=16, offset_channels=0)


def sequences(model, count=2, tokens=48):
    return np.random.default_rng(3).integers(0, model.config.vocab_size, (count, tokens))


@pytest.mark.parametrize("family", ["llama", "opt"])
def test_factors_that_are_powers_of_two_change_no_bit(family):
    model = tiny_model(family)
    config = model.config
    rng = np.random.default_rng(2)
    powers = rng.integers(
        -3, 4, (config.num_hidden_layers, config.num_key_value_heads, config.head_dim)
    )
    if family == "llama":
        powers[..., config.head_dim // 2 :] = powers[..., : config.head_dim // 2]
    folded = with_scales(model, list(np.exp2(powers).astype(np.float32)))
    (tokens, _) = sequences(model)
    assert not np.array_equal(folded.layers[0].key.weight, model.layers[0].key.weight)
    assert np.array_equal(logits(folded, tokens), logits(model, tokens))


@pytest.mark.parametrize("family", ["llama", "opt"])
def test_learning_lowers_the_error_and_repeats_itself(family):
    model = tiny_model(family)
    learned = learn_scales(model, sequences(model), CACHE, steps=30, seed=1)
    again = learn_scales(model, sequences(model), CACHE, steps=30, seed=1)
    for index in range(model.config.num_hidden_layers):
        assert learned.after[index] < learned.before[index]
        assert np.array_equal(learned.scales[index], again.scales[index])
    other = learn_scales(model, sequences(model), CACHE, steps=30, seed=2)
    assert not np.array_equal(learned.scales[0], other.scales[0])


def test_learned_factors_can_be_folded():
    """A pair of channels that the rotary embedding mixes shares its factor."""
    model = tiny_model()
    learned = learn_scales(model, sequences(model), CACHE, steps=5)
    half = model.config.head_dim // 2
    assert all(np.array_equal(s[:, :half], s[:, half:]) for s in learned.scales)
    with_scales(model, learned.scales)


def test_progress_counts_layers():
    seen = []
    learn_scales(
        tiny_model(), sequences(tiny_model(), 1), CACHE, steps=0, progress=lambda *k: seen.append(k)
    )
    assert seen == [(1, 2), (2, 2)]


def test_refusals():
    model = tiny_model()
    with pytest.raises(ValueError, match=r"^no calibration text$"):
        learn_scales(model, [], CACHE)
    with pytest.raises(ValueError, match=r"^steps must be at least 0, not -1$"):
        learn_scales(model, sequences(model), CACHE, steps=-1)
    with pytest.raises(ValueError, match=r"^0 layers of factors meet 2 layers$"):
        with_scales(model, [])
