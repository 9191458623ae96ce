"""Harmonia's attention and cache in PyTorch against the golden models."""

import numpy as np
import pytest
import torch
from transformers import LlamaConfig

from tests.support.transformers_models import SHAPE, random_model
from tilewright.golden.harmonia import cached_attention
from tilewright.golden.harmonia.cache import cached
from tilewright.golden.harmonia.gemm import decode
from tilewright.golden.llm.formats import truncate
from tilewright.golden.params.harmonia import CacheParams
from tilewright.torch import (
    HarmoniaCache,
    HarmoniaConfig,
    ModuleError,
    Recipe,
    learn_factors,
    quantize_,
    restore_,
    smooth_,
)
from tilewright.torch.attention import attend, without_offsets
from tilewright.torch.cache import HarmoniaCacheLayer

pytestmark = pytest.mark.filterwarnings("ignore::DeprecationWarning")

CACHES = {
    "paper": HarmoniaConfig(),
    "small": HarmoniaConfig(group=8, initial=8, local=16, offset_channels=2),
    "no windows": HarmoniaConfig(group=8, initial=0, local=0, offset_channels=0, value_bits=(8, 3)),
    "initial only": HarmoniaConfig(group=8, initial=16, local=0, offset_channels=1),
}


def numbers(*shape, seed=4):
    rng = np.random.default_rng(seed)
    return (rng.standard_normal(shape) * np.exp2(rng.integers(-4, 4, shape))).astype(np.float32)


def made():
    return random_model(LlamaConfig(**SHAPE), 0.15)


@pytest.mark.parametrize("name", CACHES)
@pytest.mark.parametrize("count", [150, 7])
def test_attention_is_that_of_the_golden_engine(name, count):
    """The same conversions; sums in another order, so P may tip over here and there."""
    config = CACHES[name]
    q, k, v = numbers(4, 150, 16), numbers(2, 150, 16, seed=5), numbers(2, 150, 16, seed=6)
    q = q[:, -count:] / 8
    wanted = cached_attention.attend(
        config.cache,
        truncate(q.copy(), config.group, 8),
        k,
        v,
        lambda weights: truncate(weights, config.group, 8),
    )
    got = attend(config, *(torch.from_numpy(x.copy())[None] for x in (q, k, v)))[0].numpy()
    scale = np.abs(wanted).max()
    assert np.abs(got - wanted).max() < 0.02 * scale
    assert np.median(np.abs(got - wanted)) < 1e-6 * scale


@pytest.mark.parametrize("name", CACHES)
def test_offsets_have_the_same_bits(name):
    config = CACHES[name]
    keys = numbers(3, 70, 16)
    keys[1] = np.round(keys[1])  # ties
    wanted = cached_attention.without_offsets(config.cache, keys)
    got = without_offsets(config.cache, torch.from_numpy(keys)[None])[0].numpy()
    assert np.array_equal(got, wanted)


@pytest.mark.parametrize("name", ["paper", "small", "initial only"])
@pytest.mark.parametrize("prompt", [1, 37, 100])
def test_the_cache_holds_what_the_accelerator_holds(name, prompt):
    config = CACHES[name]
    tokens, channels = 150, 16
    params = CacheParams(
        group=config.group,
        initial=config.initial,
        local=config.local,
        offset_channels=config.offset_channels,
    )
    k, v = (numbers(2, tokens, channels, seed=s).astype(np.float16) for s in (5, 6))
    layer = HarmoniaCacheLayer(config)
    pieces = [(0, prompt), *((t, t + 1) for t in range(prompt, tokens))]
    for first, last in pieces:
        keys, values = layer.update(
            *(torch.from_numpy(x[None, :, first:last].astype(np.float32)) for x in (k, v))
        )
        if last % 13 == 0 or last == tokens:
            for head in range(2):
                words = (x[head, :last].view(np.uint16) for x in (k, v))
                cache = cached(params, *words, prompt)
                assert np.array_equal(keys[0, head].numpy(), decode(cache.keys))
                assert np.array_equal(values[0, head].numpy(), decode(cache.values).T)
    assert layer.get_seq_length() == tokens


def test_generation_through_the_cache():
    model = made()
    config = HarmoniaConfig(weight_bits=None)
    quantize_(model, config)
    cache = HarmoniaCache(config)
    ids = torch.arange(1, 120)[None] % 99
    found = model.generate(ids, past_key_values=cache, max_new_tokens=5, do_sample=False)
    assert found.shape == (1, 124)
    assert cache.get_seq_length() == 123
    # 119 tokens, then one by one: the last call's logits are those of a fresh cache of all tokens.
    with torch.no_grad():
        whole = model(found, past_key_values=HarmoniaCache(config)).logits[0, -1]
        fresh = HarmoniaCache(config)
        model(found[:, :119], past_key_values=fresh)
        for t in range(119, 124):
            last = model(found[:, t : t + 1], past_key_values=fresh).logits[0, -1]
    assert float((whole - last).abs().max()) < 0.05 * float(whole.abs().max())


@torch.no_grad()
def test_factors_are_folded_and_taken_out(tmp_path):
    model = made()
    with torch.no_grad():  # one channel pair of K much larger than the others
        for layer in model.model.layers:
            layer.self_attn.k_proj.weight[[3, 11]] *= 30
    ids = torch.arange(1, 97)[None] % 99
    exact = model(ids, use_cache=False).logits
    factors = learn_factors(model, [ids[0].tolist()], steps=10)
    config = HarmoniaConfig(initial=0, local=0, offset_channels=0, weight_bits=None)
    quantize_(model, config)
    plain = model(ids, use_cache=False).logits
    recipe = smooth_(model, factors)
    smooth = model(ids, use_cache=False).logits
    assert float((smooth - exact).abs().mean()) < float((plain - exact).abs().mean())
    recipe.save(tmp_path / "recipe.toml")
    restore_(model)
    assert torch.equal(model(ids, use_cache=False).logits, exact)
    quantize_(model, Recipe.load(tmp_path / "recipe.toml"))
    assert torch.equal(model(ids, use_cache=False).logits, smooth)


def test_factors_are_refused_where_they_do_not_fit():
    model = made()
    quantize_(model, HarmoniaConfig())
    name = "model.layers.0.self_attn"
    with pytest.raises(ModuleError, match=r"^model\.layers\.0\.self_attn: 16 factors meet 32 out"):
        smooth_(model, {name: [[1.0] * 16]})
    rows = [[1.0] * 15 + [2.0], [1.0] * 16]
    with pytest.raises(ModuleError, match=r"rotary positions mix channels"):
        smooth_(model, {name: rows})
    with pytest.raises(ModuleError, match=r"^model\.other: factors are for an attention module"):
        smooth_(model, {"model.other": rows})


def test_a_cache_of_longer_mantissas_is_refused():
    with pytest.raises(ValueError, match=r"^key_bits of a cache are at most 8, not \(9, 4\)$"):
        HarmoniaCache(HarmoniaConfig(key_bits=(9, 4)))
