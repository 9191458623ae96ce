"""The KV cache: lengths of its mantissas, its size, the offsets of K."""

from fractions import Fraction

import numpy as np
import pytest

from tests.support.claims import claim
from tilewright.golden import bfp
from tilewright.golden.bits import decode
from tilewright.golden.harmonia.cache import cached
from tilewright.golden.harmonia.gemm import decode as decode_mixed
from tilewright.golden.harmonia.gemm import truncated
from tilewright.golden.harmonia.offset import largest_halved, offsets, signed_maximum, subtract
from tilewright.golden.harmonia.precision import cache_size, key_bits, value_bits
from tilewright.golden.params.formats import FP16, BlockFormat
from tilewright.golden.params.harmonia import CacheParams

SMALL = CacheParams(group=4, initial=4, local=8, offset_channels=2)
PAPER = CacheParams()


def tokens(rng, count, channels):
    """Heavy-tailed fp16 patterns with a few channels of large, biased values, as K has."""
    values = rng.standard_t(3, (count, channels)) * 0.5
    values[:, :: max(1, channels // 3)] += 6 * rng.choice([-1, 1])
    return values.astype(np.float16).view(np.uint16)


def test_cut_mantissas_equal_direct_conversion():
    words = np.random.default_rng(5).integers(0, 0x7C00, (50, 64)).astype(np.uint16)
    words[::2] |= 0x8000
    formats = [BlockFormat(group=32, mantissa_bits=bits) for bits in PAPER.key_bits]
    high, low = (bfp.encode(f, words) for f in formats)
    cut = truncated(high, 8, np.uint8(4))
    np.testing.assert_array_equal(cut.mantissa, low.mantissa)
    np.testing.assert_array_equal(decode_mixed(cut), bfp.decode(formats[1], low))


def test_lengths_by_position():
    lengths = key_bits(PAPER, 160)
    low = np.flatnonzero(lengths == 4)
    assert (low[0], low[-1], len(low)) == (32, 95, 64)
    # Tokens 96.. are local; group 2 (64..95) has left, group 1 too, group 0 is initial.
    assert value_bits(PAPER, 160).tolist() == [8, 4, 4, 8, 8]
    # One token more and group 3 still holds local tokens; the sixth group is residual.
    assert value_bits(PAPER, 161).tolist() == [8, 4, 4, 8, 8, 8]
    assert value_bits(PAPER, 192).tolist() == [8, 4, 4, 4, 8, 8]


def test_no_windows_means_low_but_for_the_residual_group():
    bare = CacheParams(initial=0, local=0)
    assert set(key_bits(bare, 100)) == {4}
    assert value_bits(bare, 100).tolist() == [4, 4, 4, 8]


def test_storage_reproduces_the_paper():
    shares = {bits: (1 + bits) / FP16.bits for bits in (4, 8)}  # sign and mantissa of an element
    assert 100 * shares[4] == claim("harmonia.kv_share_low")
    assert 100 * (1 - shares[4]) == claim("harmonia.kv_reduction_low")
    assert 100 * (1 - shares[8]) == claim("harmonia.kv_reduction_high")
    assert round(cache_size(PAPER, 4096, 128).reduction, 2) == claim("harmonia.kv_ratio_4k")
    assert PAPER.initial == claim("harmonia.initial_tokens")
    assert PAPER.local == claim("harmonia.local_tokens")
    assert PAPER.group == claim("harmonia.group")


def test_storage_counts_every_bit():
    """One head of 40 tokens and 64 channels, by hand: all K high, V groups high and residual."""
    bits = 40 * 2 * (32 * 9 + 5) + 2 * 64 * (32 * 9 + 5)
    assert cache_size(PAPER, 40, 64).bits == bits


def test_offsets_are_half_the_signed_maximum_of_the_largest_channels():
    rng = np.random.default_rng(8)
    k = tokens(rng, 50, 24)
    exact = [[Fraction(float(x)) for x in row] for row in decode(FP16, k[:32])]
    extremes = [max((row[c] for row in exact), key=abs) for c in range(24)]
    largest = sorted(range(24), key=lambda c: (-abs(extremes[c]), c))[:8]
    got = [Fraction(float(x)) for x in decode(FP16, offsets(PAPER, k))]
    assert got == [extremes[c] / 2 if c in largest else 0 for c in range(24)]


def test_offset_ties_go_to_the_earlier_token_and_the_lower_channel():
    one, minus_one = 0x3C00, 0xBC00
    k = np.array([[one, minus_one, one, 0], [minus_one, one, one, 0]], np.uint16)
    assert signed_maximum(k).tolist() == [one, minus_one, one, 0]
    assert offsets(SMALL, k).tolist() == [0x3800, 0xB800, 0, 0]


def test_halving_rounds_to_even_among_subnormals():
    k = np.array([[0x0003, 0x0401, 0x8005]], np.uint16)
    got = offsets(CacheParams(offset_channels=3), k)
    assert got.tolist() == [0x0002, 0x0200, 0x8002]


def test_a_channel_without_offset_keeps_its_bits():
    k = np.array([[0x8000, 0x3C00]], np.uint16)
    assert subtract(k, np.array([0, 0x3C00], np.uint16)).tolist() == [[0x8000, 0]]


def test_offsets_are_finite():
    """A binade below the pattern: half of what it would be if the exponent went on."""
    window = np.array([[0x7C00, 0xFC00, 0x7E00, 0xBC00]], np.uint16)
    assert largest_halved(window, 4).tolist() == [0x7800, 0xF800, 0x7A00, 0xB800]


def test_softmax_does_not_see_the_offsets():
    """Scores of every query change by one constant, exactly, where nothing is rounded."""
    rng = np.random.default_rng(2)
    k = rng.integers(-8, 8, (40, 16)).astype(np.float16).view(np.uint16)
    shifted = subtract(k, offsets(PAPER, k))
    q = rng.integers(-8, 8, 16).astype(float)
    change = decode(FP16, k) @ q - decode(FP16, shifted) @ q
    assert np.unique(change).size == 1 and change[0] != 0


def test_refused_tokens():
    tokens = np.zeros((2, 32), np.uint16)
    shapes = r"must have one shape \(tokens, channels\), not \(2, 32\) and \(1, 32\)$"
    with pytest.raises(ValueError, match=shapes):
        cached(PAPER, tokens, tokens[:1], 2)
    with pytest.raises(ValueError, match=r"NaN at .* has no block floating point value"):
        cached(PAPER, np.full((1, 32), 0x7E00, np.uint16), tokens[:1], 1)
