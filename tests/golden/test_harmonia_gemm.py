"""Harmonia's products: exact arithmetic, infinities and NaNs, refusals."""

from fractions import Fraction

import numpy as np
import pytest

from tilewright.golden import bfp
from tilewright.golden.block_gemm import partial
from tilewright.golden.harmonia.gemm import decode, gemm, linear, truncated
from tilewright.golden.params.formats import FP16, FP32, IntFormat
from tilewright.golden.params.harmonia import HarmoniaNumerics
from tilewright.golden.weights import Weights, quantise


def halves(rng, shape, spread=3.0):
    """fp16 patterns over many exponents, with zeros and subnormals."""
    values = rng.standard_t(2, shape) * np.exp2(rng.normal(0, spread, shape))
    values[rng.random(shape) < 0.05] = 0
    return np.clip(values, -65504, 65504).astype(np.float16).view(np.uint16)


def operands(numerics, rng, inner, spread=3.0):
    a = bfp.encode(numerics.activation, halves(rng, (9, inner), spread))
    b_high = bfp.encode(numerics.activation, halves(rng, (11, inner), spread))
    lengths = rng.choice([4, 8], (11, 1)).astype(np.uint8)
    return a, truncated(b_high, 8, lengths)


def test_a_signalling_nan_as_a_scale():
    numerics = HarmoniaNumerics()
    a = bfp.encode(numerics.activation, np.full((1, numerics.group), 0x3C00, np.uint16))
    ones = np.ones((1, numerics.group), np.int8)
    weights = Weights(numerics.weight_format, ones, np.array([[0x7D00]], np.uint16))
    assert linear(numerics, a, weights).tolist() == [[FP16.nan_bits]]


def test_one_group_equals_exact_arithmetic():
    """numpy rounds an exact fraction's float64 once: sums of a group have far fewer bits."""
    numerics = HarmoniaNumerics(partial=FP32)
    a, b = operands(numerics, np.random.default_rng(3), 32, spread=1)
    left, right = bfp.decode(numerics.activation, a), decode(b)
    got = gemm(numerics, a, b).view(np.float16)
    for i, x in enumerate(left):
        for j, y in enumerate(right):
            exact = sum((Fraction(p) * Fraction(q) for p, q in zip(x, y, strict=True)), Fraction())
            assert got[i, j] == np.float32(float(exact)).astype(np.float16)


def test_partial_overflows_to_infinity_and_keeps_subnormals():
    numerics = HarmoniaNumerics()
    assert partial(numerics, np.array([1, -1]), np.array([16, 16])).tolist() == [0x7C00, 0xFC00]
    assert partial(numerics, np.array([3, 1]), np.array([-24, -25])).tolist() == [0x0003, 0x0000]


@pytest.mark.parametrize(("partial_format", "result"), [(FP16, 0.0), (FP32, 1.0)])
def test_fp16_partials_lose_what_fp32_partials_keep(partial_format, result):
    """Groups of 2049 and -2048: the published chain rounds the first to 2048."""
    numerics = HarmoniaNumerics(partial=partial_format)
    activations, values = np.zeros((1, 64), np.float16), np.zeros((1, 64), np.int8)
    activations[0, [0, 1, 2, 32, 33, 34]] = [255, 255, 9, -255, -255, -8]
    values[0, [0, 1, 2, 32, 33, 34]] = [7, 1, 1, 7, 1, 1]
    weights = Weights(IntFormat(bits=4), values, np.full((1, 1), 0x3C00, np.uint16))
    blocks = bfp.encode(numerics.activation, activations.view(np.uint16))
    assert linear(numerics, blocks, weights).view(np.float16) == result


@pytest.mark.parametrize("partial_format", [FP16, FP32])
def test_infinite_partials_of_both_signs_are_the_canonical_nan(partial_format):
    numerics = HarmoniaNumerics(group=2, partial=partial_format)
    values = np.array([[65504, 0, -65504, 0]], np.float16).view(np.uint16)
    a = bfp.encode(numerics.activation, values)
    b = truncated(bfp.encode(numerics.activation, np.abs(values & 0x7FFF)), 8, np.uint8(8))
    got = gemm(numerics, a, b)
    assert got[0, 0] == (FP16.nan_bits if partial_format == FP16 else 0)


def test_refusals():
    numerics = HarmoniaNumerics()
    a, b = operands(numerics, np.random.default_rng(0), 64)
    short, _ = operands(numerics, np.random.default_rng(0), 33)
    other, _ = operands(HarmoniaNumerics(group=8), np.random.default_rng(0), 64)
    with pytest.raises(ValueError, match=r"^33 elements but 64 in the second operand$"):
        gemm(numerics, short, b)
    with pytest.raises(ValueError, match=r"^first operand's group is 8, not 32$"):
        gemm(numerics, other, b)
    with pytest.raises(ValueError, match=r"^activations have groups of 8, not 32$"):
        linear(numerics, other, quantise(np.ones((2, 64))))
    with pytest.raises(ValueError, match=r"^64 activations but 63 weights of an output$"):
        linear(numerics, a, quantise(np.ones((2, 63))))
    with pytest.raises(ValueError, match=r"^weights are int8, not int4$"):
        linear(numerics, a, quantise(np.ones((2, 64)), bits=8))
    with pytest.raises(ValueError, match=r"^a weight group of 48 is no multiple"):
        linear(numerics, a, quantise(np.ones((2, 64)), group=48))
    with pytest.raises(ValueError, match=r"^group must be 2..64, not 65$"):
        HarmoniaNumerics(group=65)
