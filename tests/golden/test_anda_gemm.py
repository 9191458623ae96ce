"""tilewright.golden.anda.dot_products and weights against fractions, value by value."""

from fractions import Fraction

import numpy as np
import pytest

from tilewright.golden import bfp
from tilewright.golden.anda.dot_products import dot, gemm
from tilewright.golden.bits import decode
from tilewright.golden.params.anda import AndaNumerics
from tilewright.golden.params.formats import FP16, FP32, IntFormat
from tilewright.golden.weights import Weights, dequantise, quantise
from tilewright.verify.stimuli.tensors import activations, scales, weights


def fp16_of(value):
    """The nearest fp16 of a fraction; its floats are exact for every fraction met here."""
    return np.float64(value).astype(np.float16)


def fp32_of(value):
    return np.float64(value).astype(np.float32)


def exact_dot(numerics, mantissa_bits, row, weights, scales):
    """One dot product by the definition: fractions, rounded by numpy at each published step."""
    total = np.float32(0)
    for start in range(0, len(row), numerics.group):
        patterns = row[start : start + numerics.group]
        shared = max(max((p >> 10) & 31, 1) for p in patterns)
        step = Fraction(2) ** (shared - 15 - (mantissa_bits - 1))
        group = Fraction(0)
        for pattern, weight in zip(patterns, weights[start:], strict=False):
            magnitude = abs(Fraction(float(np.uint16(pattern).view(np.float16))))
            mantissa = int(magnitude / step)
            group += (-1) ** (pattern >> 15) * mantissa * step * int(weight)
        partial = fp16_of(group) if numerics.partial == FP16 else fp32_of(group)
        scale = np.uint16(scales[start // numerics.group]).view(np.float16)
        scaled = np.float64(partial) * np.float64(scale)  # exact: 24 + 11 bits at most
        total = np.float32(np.float64(total) + np.float64(scaled.astype(np.float32)))
    result = total.astype(np.float16)
    return 0x7E00 if np.isnan(result) else int(result.view(np.uint16))


@pytest.mark.filterwarnings("ignore::RuntimeWarning")
@pytest.mark.parametrize("partial", [FP16, FP32], ids=str)
@pytest.mark.parametrize("mantissa_bits", range(1, 17))
def test_dot_equals_fractions(mantissa_bits, partial):
    numerics = AndaNumerics(group=16, partial=partial)
    rng = np.random.default_rng(mantissa_bits)
    rows = activations(rng, 24, 16, finite=True).reshape(12, 32)
    factors = weights(rng, numerics.weight_format, 24, numerics.group).reshape(12, 32)
    scale = scales(rng, 24).reshape(12, 2)
    blocks = bfp.encode(numerics.block_format(mantissa_bits), rows)
    got = dot(numerics, mantissa_bits, blocks, factors.reshape(12, 2, 16), scale)
    want = [
        exact_dot(numerics, mantissa_bits, *case)
        for case in zip(rows.tolist(), factors.tolist(), scale.tolist(), strict=True)
    ]
    assert got.tolist() == want


def test_a_signalling_nan_as_a_scale():
    numerics = AndaNumerics(group=16)
    blocks = bfp.encode(numerics.block_format(8), np.full((1, 16), 0x3C00, np.uint16))
    matrix = Weights(numerics.weight_format, np.ones((1, 16), np.int8), np.array([[0x7D00]], "u2"))
    assert gemm(numerics, 8, blocks, matrix).tolist() == [[FP16.nan_bits]]


def test_gemm_equals_dot():
    """With a ragged last group, and weight groups of two groups of activations."""
    numerics, mantissa_bits = AndaNumerics(weight_bits=8), 16
    rng = np.random.default_rng(mantissa_bits)
    rows, inputs, outputs = 7, 200, 9
    bits = activations(rng, rows * 4, 64, finite=True).reshape(rows, 256)[:, :inputs]
    values = weights(rng, numerics.weight_format, outputs * 4, 64).reshape(outputs, 256)
    values[:, inputs:] = 0
    matrix = Weights(
        numerics.weight_format,
        values[:, :inputs].astype(np.int8),
        scales(rng, 2 * outputs).reshape(-1, 2),
    )
    blocks = bfp.encode(numerics.block_format(mantissa_bits), bits)
    parts = (blocks.sign, blocks.mantissa, blocks.exponent)
    spread = bfp.Blocks(*(part[:, np.newaxis] for part in parts), inputs)
    per_group = np.repeat(matrix.scales, 2, axis=1)
    want = dot(numerics, mantissa_bits, spread, values.reshape(outputs, 4, 64), per_group)
    assert np.array_equal(gemm(numerics, mantissa_bits, blocks, matrix), want)


def test_quantise_rounds_to_the_nearest_multiple():
    rng = np.random.default_rng(4)
    matrix = rng.standard_normal((3, 300))
    quantised = quantise(matrix, bits=4, group=128)
    assert quantised.values.shape == (3, 300) and quantised.scales.shape == (3, 3)
    steps = np.repeat(decode(FP16, quantised.scales), 128, axis=1)[:, :300]
    assert np.array_equal(quantised.values, np.clip(np.rint(matrix / steps), -8, 7))
    assert (np.abs(dequantise(quantised) - matrix) <= steps / 2).all()
    assert quantised.values.max() == 7  # a group's largest magnitude is used in full


def test_a_group_of_zeros_has_the_scale_one():
    assert quantise(np.zeros((1, 5))).scales.tolist() == [[0x3C00]]


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"scales": np.zeros((2, 2), np.uint16)}, r"^scales are \(2, 2\), not \(2, 1\)$"),
        ({"values": np.full((2, 8), 8, np.int8)}, "^weight 8 is not an int4$"),
        ({"values": np.full((2, 8), -9, np.int8)}, "^weight -9 is not an int4$"),
    ],
)
def test_weights_are_checked(changes, message):
    fields = {"values": np.zeros((2, 8), np.int8), "scales": np.zeros((2, 1), np.uint16)} | changes
    with pytest.raises(ValueError, match=message):
        Weights(IntFormat(bits=4), **fields)


@pytest.mark.parametrize(
    ("scale", "message"),
    [(1e-12, "too small for an fp16 scale"), (1e9, "too large for an fp16 scale")],
)
def test_weights_without_a_scale_are_refused(scale, message):
    with pytest.raises(ValueError, match=message):
        quantise(np.full((1, 4), scale))


def test_weights_must_be_a_matrix():
    with pytest.raises(ValueError, match=r"^weights are a matrix, not of shape \(3,\)$"):
        quantise(np.zeros(3))


def operands(group=64, inputs=128, bits=4, weight_group=128):
    blocks = bfp.encode(AndaNumerics(group=group).block_format(4), np.zeros((2, inputs), np.uint16))
    return blocks, quantise(np.zeros((3, 128)), bits=bits, group=weight_group)


@pytest.mark.parametrize(
    ("case", "message"),
    [
        (operands(group=32), "^activations have groups of 32, not 64$"),
        (operands(bits=3), "^weights are int3, not int4$"),
        (operands(inputs=100), "^100 activations but 128 weights of an output$"),
        (operands(weight_group=96), "^a weight group of 96 is no multiple of the activations' 64$"),
    ],
)
def test_operands_that_do_not_fit_are_refused(case, message):
    with pytest.raises(ValueError, match=message):
        gemm(AndaNumerics(), 4, *case)


def test_activations_must_be_a_matrix():
    blocks = bfp.encode(AndaNumerics().block_format(4), np.zeros(64, np.uint16))
    with pytest.raises(ValueError, match=r"^activations are a matrix, not 1D$"):
        gemm(AndaNumerics(), 4, blocks, quantise(np.zeros((3, 64))))
