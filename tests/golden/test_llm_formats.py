"""Formats at the sites of a model multiply what golden's units multiply, bit by bit."""

import numpy as np
import pytest

from tilewright.golden import bfp
from tilewright.golden.harmonia.attention import attend as attend_of_hardware
from tilewright.golden.harmonia.cache import cached
from tilewright.golden.harmonia.cached_attention import attend, cached_keys, without_offsets
from tilewright.golden.harmonia.gemm import decode as decode_mixed
from tilewright.golden.harmonia.llm_format import HarmoniaFormat
from tilewright.golden.llm.engine import Session, logits
from tilewright.golden.llm.formats import AndaFormat
from tilewright.golden.llm.sites import LINEAR_SITES, Site
from tilewright.golden.llm.tiny import tiny_model
from tilewright.golden.params.formats import BlockFormat
from tilewright.golden.params.harmonia import CacheParams, HarmoniaNumerics


def old(bits):
    return {"key_bits": (8, bits), "value_bits": (8, bits)}


CACHES = {
    "paper": CacheParams(),
    "small": CacheParams(group=4, initial=4, local=8, offset_channels=2),
    "no windows": CacheParams(group=4, initial=0, local=0, **old(3), offset_channels=0),
    "local only": CacheParams(group=4, initial=0, local=4, **old(1), offset_channels=0),
    "initial only": CacheParams(group=4, initial=8, local=0, **old(2), offset_channels=1),
}


def halves(rng, *shape):
    """Values of many magnitudes, a few channels much larger, as fp16 patterns and float32."""
    values = rng.standard_normal(shape) * np.exp2(rng.integers(-12, 3, shape))
    values[..., 1] += 40
    patterns = values.astype(np.float16).view(np.uint16)
    return patterns, patterns.view(np.float16).astype(np.float32)


@pytest.mark.parametrize("name", CACHES)
def test_every_query_meets_the_cache_as_it_was_then(name):
    params = CACHES[name]
    rng = np.random.default_rng(5)
    tokens, channels = (150, 64) if name == "paper" else (30, 8)
    (key_words, keys), (value_words, values) = (halves(rng, tokens, channels) for _ in "kv")
    prompt = max(params.initial, 1)
    shifted = without_offsets(params, keys[np.newaxis])
    checked = 0
    for t in range(prompt, tokens):
        cache = cached(params, key_words[: t + 1], value_words[: t + 1], prompt)
        seen = cached_keys(params, shifted[:, : t + 1])[0]
        assert np.array_equal(seen, decode_mixed(cache.keys))
        for p in rng.integers(0, t + 1, 3):
            one = np.zeros((1, 1, t + 1), np.float32)
            one[..., p] = 1
            got = attend(
                params,
                np.zeros((1, 1, channels), np.float32),
                keys[np.newaxis, : t + 1],
                values[np.newaxis, : t + 1],
                lambda _, one=one: one,
            )
            assert np.array_equal(got[0, 0], decode_mixed(cache.values)[:, p])
            checked += 1
    assert checked == 3 * (tokens - prompt)


@pytest.mark.parametrize("name", CACHES)
@pytest.mark.parametrize("step", [1, 16])
def test_all_queries_of_a_step_see_the_cache_at_its_end(name, step):
    """Weights pick one value for each query; key heads and the heads that share them stay apart."""
    fmt = CACHES[name]
    rng = np.random.default_rng(6)
    tokens, channels = (150, 64) if name == "paper" else (30, 8)
    _, keys = halves(rng, 2, tokens, channels)
    _, values = halves(rng, 2, tokens, channels)
    q = np.zeros((6, tokens, channels), np.float32)
    picks = np.array([[rng.integers(0, t + 1) for t in range(tokens)] for _ in range(6)])

    def picked(weights):
        """(heads, queries, tokens so far): ones at the picks."""
        _, queries, high = weights.shape
        where = picks[:, high - queries : high, np.newaxis]
        return (np.arange(high) == where).astype(np.float32)

    together = attend(fmt, q, keys, values, picked, step=step)
    for t in range(tokens):
        end = min(tokens, t - t % step + step)
        one = np.zeros((6, 1, end), np.float32)
        np.put_along_axis(one, picks[:, t].reshape(6, 1, 1), 1, axis=2)
        alone = attend(fmt, q[:, :1], keys[:, :end], values[:, :end], lambda _, one=one: one)
        assert np.array_equal(together[:, t], alone[:, 0])


@pytest.mark.parametrize("name", ["paper", "no windows"])
def test_one_head_equals_the_hardwares_attention(name):
    """Queries that each find one key: softmax is then 0 and 1 in both, and every sum exact."""
    params = CACHES[name]
    rng = np.random.default_rng(7)
    tokens, channels = 120, 32
    codes = np.array([[1.0 if (t >> b) & 1 else -1.0 for b in range(8)] for t in range(tokens)])
    keys = np.tile(codes, (1, channels // 8)).astype(np.float32)
    words, values = halves(rng, tokens, channels)
    key_words = keys.astype(np.float16).view(np.uint16)
    for t in range(64, tokens):
        cache = cached(params, key_words[: t + 1], words[: t + 1], 64)
        wanted = rng.integers(0, t + 1)
        q = 16 * keys[wanted][np.newaxis]
        hardware = attend_of_hardware(
            HarmoniaNumerics(group=params.group), cache, q.astype(np.float16).view(np.uint16)
        )
        fmt = HarmoniaFormat(group=params.group, cache=params)
        ours = fmt.attend(0, q[np.newaxis], keys[np.newaxis, : t + 1], values[np.newaxis, : t + 1])
        assert np.array_equal(ours[0].astype(np.float16).view(np.uint16), hardware)


def test_anda_converts_the_four_linear_sites():
    rng = np.random.default_rng(8)
    words, values = halves(rng, 5, 192)
    fmt = AndaFormat((7, 6, 5, 4))
    for site, length in zip(LINEAR_SITES, (7, 6, 5, 4), strict=True):
        block = BlockFormat(group=64, mantissa_bits=length)
        wanted = bfp.decode(block, bfp.encode(block, words))
        assert np.array_equal(fmt.activation(site, 0, values.copy()), wanted)
    for site in (Site.Q, Site.K, Site.V, Site.P):
        assert fmt.activation(site, 0, values) is values


def test_harmonia_converts_attention_too():
    fmt = HarmoniaFormat(linear_bits=(9, 8, 7, 6), query_bits=5, weight_bits=2)
    _, values = halves(np.random.default_rng(9), 2, 64)
    linears = zip(LINEAR_SITES, (9, 8, 7, 6), strict=True)
    for site, length in (*linears, (Site.Q, 5), (Site.P, 2)):
        block = BlockFormat(group=32, mantissa_bits=length)
        wanted = bfp.decode(block, bfp.encode(block, values.astype(np.float16).view(np.uint16)))
        assert np.array_equal(fmt.activation(site, 0, values.copy()), wanted)


def test_decode_equals_prefill():
    """Token by token a model sees the same keys and values as all at once."""
    model = tiny_model()
    tokens = np.random.default_rng(1).integers(0, model.config.vocab_size, 70)
    fmt = HarmoniaFormat(
        group=8, cache=CacheParams(group=8, initial=8, local=16, offset_channels=2)
    )
    session = Session(model, fmt)
    parts = [session.feed(tokens[:20])] + [session.feed(tokens[t : t + 1]) for t in range(20, 70)]
    together = logits(model, tokens, fmt)
    # Sums of different shapes may differ in their last bits, and a truncation that tips over may
    # carry that on: the likeliest token is what must agree.
    assert np.array_equal(np.concatenate(parts).argmax(axis=1), together.argmax(axis=1))


@pytest.mark.parametrize(
    ("make", "text"),
    [
        (lambda: AndaFormat((4, 4)), "Anda has a length for each of qkv, o, u, d, not 2 lengths"),
        (lambda: AndaFormat((4, 4, 4, 17)), r"mantissa_bits must be .*, not 17"),
        (lambda: CacheParams(local=33), "local must be a multiple of the group 32, not 33"),
        (lambda: CacheParams(key_bits=(4, 8)), "key_bits: old tokens have 8 bits, recent ones 4"),
        (lambda: CacheParams(offset_channels=-1), "offset_channels must be at least 0, not -1"),
    ],
)  # fmt: skip
def test_refusals(make, text):
    with pytest.raises(ValueError, match=f"^{text}$"):
        make()
