"""Attention in block floating point: shape of the computation, exact pieces, and its error."""

import numpy as np
import pytest

from tilewright.golden.harmonia.attention import attend, powers
from tilewright.golden.harmonia.cache import cached
from tilewright.golden.harmonia.gemm import decode
from tilewright.golden.params.formats import FP32
from tilewright.golden.params.harmonia import CacheParams, HarmoniaNumerics

CHANNELS = 64


def halves(values):
    return np.asarray(values, np.float16).view(np.uint16)


def heads(seed, tokens):
    rng = np.random.default_rng(seed)
    q = rng.normal(size=(tokens, CHANNELS)) / np.sqrt(CHANNELS)
    k = rng.normal(size=(tokens, CHANNELS))
    k[:, ::9] += 5
    v = rng.normal(size=(tokens, CHANNELS))
    return halves(q), halves(k), halves(v)


def exact_attention(q, k, v, first):
    """float64 over the fp16 operands, causal."""
    q, k, v = (x.view(np.float16).astype(np.float64) for x in (q, k, v))
    scores = q @ k.T
    scores[np.arange(len(k)) > (first + np.arange(len(q)))[:, np.newaxis]] = -np.inf
    powers = np.exp(scores - scores.max(axis=1, keepdims=True))
    return powers / powers.sum(axis=1, keepdims=True) @ v


def relative_error(got, exact):
    return np.linalg.norm(got.view(np.float16) - exact) / np.linalg.norm(exact)


@pytest.mark.parametrize("numerics", [HarmoniaNumerics(), HarmoniaNumerics(partial=FP32)], ids=str)
def test_prefill_then_decode_is_close_to_exact_attention(numerics):
    """160 tokens at once, then one by one, while tokens age from 8 to 4 bits."""
    q, k, v = heads(1, 180)
    outputs = []
    for start, end in ((0, 160), *((t, t + 1) for t in range(160, 180))):
        cache = cached(CacheParams(), k[:end], v[:end], 160)
        outputs.append(attend(numerics, cache, q[start:end]))
    exact = exact_attention(q, k, v, 0)
    assert relative_error(np.concatenate(outputs), exact) < 0.1


def test_a_query_sees_nothing_behind_itself():
    q, k, v = heads(4, 100)
    later = k.copy(), v.copy()
    later[0][60:], later[1][60:] = heads(5, 40)[1:]
    results = []
    for keys, values in ((k, v), later):
        # Without windows and offsets the first tokens' own groups do not see the later ones,
        # but for V's groups, which span tokens: compare up to the last whole group before 60.
        cache = cached(
            CacheParams(offset_channels=0, key_bits=(8, 8), value_bits=(8, 8)),
            keys,
            values,
            len(keys),
        )
        results.append(attend(HarmoniaNumerics(), cache, q)[:32])
    np.testing.assert_array_equal(*results)


def test_powers_of_equal_scores_are_one():
    scores = np.full((1, 8), 0x4200, np.uint16)
    assert powers(scores, np.array([4])).view(np.float16).tolist() == [[1.0] * 4 + [0.0] * 4]


def test_values_of_one_token_come_back():
    """With one token the weight is 1 and V returns as its own 8-bit conversion."""
    q, k, v = heads(6, 1)
    cache = cached(CacheParams(), k, v, 1)
    got = attend(HarmoniaNumerics(), cache, q)
    expected = decode(cache.values)[:, 0]
    np.testing.assert_array_equal(got[0].view(np.float16).astype(float), expected)


def test_refusals():
    cache = cached(CacheParams(), *heads(7, 2)[1:], 2)
    with pytest.raises(
        ValueError, match=r"^queries must have the shape \(tokens, 64\), not \(1, 63\)$"
    ):
        attend(HarmoniaNumerics(), cache, np.zeros((1, 63), np.uint16))
    with pytest.raises(ValueError, match=r"^3 queries but 2 tokens in the cache$"):
        attend(HarmoniaNumerics(), cache, np.zeros((3, CHANNELS), np.uint16))
