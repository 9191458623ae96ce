"""tilewright.golden.arith against numpy, exact float64 arithmetic and fractions."""

from fractions import Fraction
from itertools import product

import numpy as np
import pytest

from tests.support.oracles import (
    ALL_RULES,
    UNNAMED_FORMATS,
    all_patterns,
    canonical,
    fraction,
    nearest,
    nearest_to_fraction,
    rules_id,
    sum_to_odd,
    values,
)
from tilewright.golden.arith import add, convert, fma, int_to_float, multiply
from tilewright.golden.params.arith import AMX_RULES, IEEE_RULES, FloatRules
from tilewright.golden.params.formats import (
    BF16,
    E2M1,
    E2M3,
    E3M2,
    E4M3,
    E5M2,
    E8M0,
    FLOAT_FORMATS,
    FP16,
    FP32,
    Overflow,
    Rounding,
    Subnormals,
)
from tilewright.golden.vectors import corners, operands

FORMATS = list(FLOAT_FORMATS.values())
TINY_FORMATS = [E5M2, E4M3, E3M2, E2M3, E2M1, *UNNAMED_FORMATS]
OPERATIONS = {"multiply": (multiply, np.multiply), "add": (add, sum_to_odd)}
TOWARD_ZERO = FloatRules(rounding=Rounding.TOWARD_ZERO)
ROUNDS = 10  # of 2^20 operand pairs: more than 10^7 in all
MILLIONS = [1, pytest.param(ROUNDS, marks=pytest.mark.full)]  # such rounds

# Signs, zeros, infinities and NaNs of fp16, by name.
ONE, MINUS_ONE, ZERO, MINUS_ZERO, INF, MINUS_INF, NAN = (
    0x3C00, 0xBC00, 0x0000, 0x8000, 0x7C00, 0xFC00, 0x7E00
)  # fmt: skip
SIGNALLING_NAN, MINUS_NAN, LARGEST = 0x7C01, 0xFE00, 0x7BFF


def exact_result(exact, a_fmt, b_fmt, out_fmt, a, b, rules):
    with np.errstate(invalid="ignore"):  # inf - inf and 0 * inf
        result = exact(values(a_fmt, a, rules), values(b_fmt, b, rules))
    return nearest(out_fmt, result, rules)


@pytest.mark.parametrize("rules", ALL_RULES, ids=rules_id)
@pytest.mark.parametrize("operation", OPERATIONS)
@pytest.mark.parametrize("fmt", TINY_FORMATS, ids=str)
def test_every_pair_of_8_bits_and_fewer(fmt, operation, rules):
    golden, exact = OPERATIONS[operation]
    a, b = all_patterns(fmt)[:, np.newaxis], all_patterns(fmt)
    want = exact_result(exact, fmt, fmt, fmt, *np.broadcast_arrays(a, b), rules)
    assert np.array_equal(golden(fmt, fmt, fmt, a, b, rules), want)


@pytest.mark.parametrize("rounds", MILLIONS)
@pytest.mark.parametrize("operation", OPERATIONS)
@pytest.mark.parametrize("fmt", [BF16, FP16], ids=str)
def test_millions_of_pairs_of_16_bits(fmt, operation, rounds):
    """Corner pairs first; products and sums are exact in float64 or rounded there to odd."""
    golden, exact = OPERATIONS[operation]
    rng = np.random.default_rng(11)
    for _ in range(rounds):
        a, b = operands([fmt, fmt], rng, 1 << 20)
        want = exact_result(exact, fmt, fmt, fmt, a, b, IEEE_RULES)
        assert np.array_equal(golden(fmt, fmt, fmt, a, b), want)


@pytest.mark.parametrize("rounds", MILLIONS)
@pytest.mark.parametrize("operation", ["multiply", "add"])
def test_millions_of_pairs_of_fp32_as_numpy_does(operation, rounds):
    golden, theirs = {"multiply": (multiply, np.multiply), "add": (add, np.add)}[operation]
    rng = np.random.default_rng(12)
    for _ in range(rounds):
        a, b = operands([FP32, FP32], rng, 1 << 20)
        with np.errstate(all="ignore"):
            want = theirs(a.view(np.float32), b.view(np.float32)).view(np.uint32)
        assert np.array_equal(golden(FP32, FP32, FP32, a, b), canonical(FP32, want))


@pytest.mark.parametrize("rules", ALL_RULES, ids=rules_id)
@pytest.mark.parametrize("operation", OPERATIONS)
@pytest.mark.parametrize(
    "formats",
    [(BF16, BF16, BF16), (FP16, FP16, FP16), (FP32, FP32, FP32), (FP16, FP16, FP32),
     (E4M3, BF16, FP16), (FP32, E5M2, E4M3), (BF16, FP16, E2M1)],
    ids=lambda formats: "-".join(map(str, formats)),
)  # fmt: skip
def test_mixed_formats_under_all_rules(formats, operation, rules):
    golden, exact = OPERATIONS[operation]
    a, b = operands(formats[:2], np.random.default_rng(13), 1 << 13)
    want = exact_result(exact, *formats, a, b, rules)
    assert np.array_equal(golden(*formats, a, b, rules), want)


@pytest.mark.parametrize("rules", ALL_RULES, ids=rules_id)
@pytest.mark.parametrize(
    "formats",
    [(BF16, BF16, FP32, FP32), (FP16, FP16, FP16, FP16), (FP32, FP32, FP32, FP32),
     (E4M3, E4M3, FP16, BF16), (BF16, BF16, BF16, BF16)],
    ids=lambda formats: "-".join(map(str, formats)),
)  # fmt: skip
def test_fma_rounds_once(formats, rules):
    """A product of fp32 significands has 48 bits, exact in float64; the sum is rounded to odd."""
    *inputs, out = formats
    a, b, c = operands(inputs, np.random.default_rng(14), 1 << 15)
    with np.errstate(invalid="ignore"):
        x, y, z = (values(f, v, rules) for f, v in zip(inputs, (a, b, c), strict=True))
        want = nearest(out, sum_to_odd(x * y, z), rules)
    assert np.array_equal(fma(*formats, a, b, c, rules), want)


@pytest.mark.full
def test_ten_million_fused_fp32():
    rng = np.random.default_rng(15)
    for _ in range(ROUNDS):
        a, b, c = operands([FP32] * 3, rng, 1 << 20)
        with np.errstate(invalid="ignore"):
            x, y, z = (values(FP32, v) for v in (a, b, c))
            want = nearest(FP32, sum_to_odd(x * y, z), IEEE_RULES)
        assert np.array_equal(fma(FP32, FP32, FP32, FP32, a, b, c), want)


@pytest.mark.parametrize("rounding", Rounding)
def test_fma_of_fp32_against_fractions(rounding):
    rng = np.random.default_rng(16)
    columns = operands([FP32] * 3, rng, 6000)
    finite = np.all([np.isfinite(values(FP32, v)) for v in columns], axis=0)
    a, b, c = (v[finite][-1500:] for v in columns)
    got = fma(FP32, FP32, FP32, FP32, a, b, c, FloatRules(rounding=rounding))
    for k in range(len(a)):
        exact = fraction(FP32, a[k]) * fraction(FP32, b[k]) + fraction(FP32, c[k])
        if exact:
            magnitude = nearest_to_fraction(FP32, abs(exact), rounding)
            assert got[k] == magnitude | ((exact < 0) << 31), (hex(a[k]), hex(b[k]), hex(c[k]))


@pytest.mark.parametrize("rules", ALL_RULES, ids=rules_id)
@pytest.mark.parametrize("target", FORMATS, ids=str)
@pytest.mark.parametrize("source", [f for f in FORMATS if f.bits <= 16], ids=str)
def test_convert_every_pattern(source, target, rules):
    bits = all_patterns(source)
    want = nearest(target, values(source, bits, rules), rules)
    assert np.array_equal(convert(source, target, bits, rules), want)


@pytest.mark.parametrize("rules", ALL_RULES, ids=rules_id)
def test_convert_fp32_to_bf16_at_every_upper_half(rules):
    """All 65,536 upper halves with the lower halves at which rounding changes its mind."""
    upper = np.arange(1 << 16, dtype=np.uint32)[:, np.newaxis] << 16
    bits = (upper | np.array([0, 1, 0x7FFF, 0x8000, 0x8001, 0xFFFF], np.uint32)).reshape(-1)
    want = nearest(BF16, values(FP32, bits, rules), rules)
    assert np.array_equal(convert(FP32, BF16, bits, rules), want)


@pytest.mark.parametrize("target", FORMATS, ids=str)
def test_convert_random_fp32(target):
    rng = np.random.default_rng(17)
    bits = np.concatenate([corners(FP32), rng.integers(0, 1 << 32, 1 << 18, np.uint32)])
    # Uniform patterns rarely fall into a small format's range: move some of them there.
    field = rng.integers(target.min_exponent - 12, target.max_exponent + 3, 1 << 17) + FP32.bias
    field = np.clip(field, 0, 255).astype(np.uint32)
    bits[-(1 << 17) :] = bits[-(1 << 17) :] & 0x807FFFFF | (field << 23)
    want = nearest(target, values(FP32, bits), IEEE_RULES)
    assert np.array_equal(convert(FP32, target, bits), want)


@pytest.mark.parametrize("target", FORMATS, ids=str)
@pytest.mark.parametrize("dtype", [np.int8, np.int16, np.uint16, np.int32, np.int64, np.uint64])
def test_int_to_float(dtype, target):
    """Random integers of every length; powers of two, ties above them, and their neighbours."""
    rng = np.random.default_rng(18)
    info = np.iinfo(dtype)
    lengths = rng.integers(0, info.bits, 400)
    some = rng.integers(info.min, info.max, 400, dtype, endpoint=True) >> lengths.astype(dtype)
    powers = [2**k for k in range(info.bits)]
    ties = [p + p // 2**target.significand_bits for p in powers]
    edges = [s * e + d for e in powers + ties for d in (-1, 0, 1) for s in (-1, 1)]
    edges += [info.min, info.max]
    integers = some.tolist() + [v for v in edges if info.min <= v <= info.max]
    for rounding in Rounding:
        rules = FloatRules(rounding=rounding, overflow=Overflow.SATURATE)
        got = int_to_float(target, np.array(integers, dtype), rules)
        for value, bits in zip(integers, got.tolist(), strict=True):
            magnitude = nearest_to_fraction(target, Fraction(abs(value)), rounding)
            want = min(magnitude, target.max_finite_bits) | ((value < 0) << (target.bits - 1))
            assert bits == want, value


def test_int_to_float_overflows_to_infinity_and_zero_is_positive():
    assert int_to_float(FP16, [65519, 65520, -65520, 0]).tolist() == [LARGEST, INF, MINUS_INF, ZERO]


def test_int_to_float_refuses_floats():
    with pytest.raises(ValueError, match=r"^int_to_float takes integers, not float64$"):
        int_to_float(FP16, [1.0])


@pytest.mark.parametrize("nan", [NAN, SIGNALLING_NAN, MINUS_NAN, 0xFFFF])
def test_nan_in_canonical_nan_out(nan):
    others = corners(FP16)
    for operation in (multiply, add):
        assert (operation(FP16, FP16, FP16, nan, others) == NAN).all()
        assert (operation(FP16, FP16, FP16, others, nan) == NAN).all()
    for triple in ((nan, ONE, ONE), (ONE, nan, ONE), (ONE, ONE, nan)):
        assert fma(FP16, FP16, FP16, FP16, *triple) == NAN
    assert convert(FP16, FP32, nan) == 0x7FC00000
    assert convert(FP16, E4M3, nan) == 0x7F
    assert convert(FP16, E5M2, nan) == 0x7E


@pytest.mark.parametrize("rules", [IEEE_RULES, TOWARD_ZERO], ids=rules_id)
def test_fused_infinities_and_zeros(rules):
    """Those of products and sums are among all pairs of 8 bits."""
    for a, b, c, want in [
        (INF, ONE, MINUS_INF, NAN),
        (INF, ZERO, ONE, NAN),
        (ONE, ONE, MINUS_INF, MINUS_INF),
        (MINUS_ONE, ZERO, MINUS_ZERO, MINUS_ZERO),
        (ONE, ZERO, MINUS_ZERO, ZERO),
        (ONE, ONE, MINUS_ONE, ZERO),
    ]:
        assert fma(FP16, FP16, FP16, FP16, a, b, c, rules) == want
    flush = FloatRules(operand_subnormals=Subnormals.FLUSH)
    assert fma(FP16, FP16, FP16, FP16, ONE, ONE, 0x03FF, flush) == ONE


def test_scale_operands_multiply_exactly():
    """bf16 times e8m0: both ends of the scale, NaN, and no flush while the result is normal."""
    scales = np.arange(256)
    got = multiply(BF16, E8M0, BF16, 0x3F80, scales, AMX_RULES)
    want = np.where(scales == 255, 0x7FC0, scales << 7)  # byte 0 is 2^-127: flushed
    assert np.array_equal(got, want)
    assert multiply(BF16, E8M0, BF16, 0x7F00, 0, AMX_RULES) == 0x3F80  # 2^127 * 2^-127
    assert multiply(BF16, E8M0, BF16, 0x0080, 254, AMX_RULES) == 0x4000  # 2^-126 * 2^127
    assert convert(E8M0, FP32, [0, 127, 254]).tolist() == [0x400000, 0x3F800000, 0x7F000000]


def test_operands_broadcast_and_results_have_the_smallest_dtype():
    got = add(FP16, FP16, E4M3, np.full((3, 1), ONE), np.full((4,), ONE))
    assert got.shape == (3, 4) and got.dtype == np.uint8 and (got == 0x40).all()
    assert multiply(FP16, FP16, FP16, np.zeros((0,), int), ONE).shape == (0,)


def test_operations_refuse_what_is_no_pattern():
    with pytest.raises(ValueError, match=r"^0x100 is not a 8-bit pattern of e4m3$"):
        multiply(E4M3, E4M3, E4M3, [0x100], [0])
    with pytest.raises(ValueError, match=r"^0x10000 is not a 16-bit pattern of fp16$"):
        fma(FP16, FP16, FP16, FP16, [0], [0], [1 << 16])


def test_oracles_agree_with_each_other():
    """The float64 grid and the fractions, on values around every corner of every format."""
    for fmt, rounding in product(FORMATS, Rounding):
        bits = corners(fmt)
        near = values(fmt, bits[: len(bits) // 2])
        near = near[np.isfinite(near)]
        near = np.concatenate([near, near * (1 + 2.0**-9), near * 0.75, near * (1 + 2.0**-25)])
        got = nearest(fmt, near, FloatRules(rounding=rounding, overflow=Overflow.SATURATE))
        for value, pattern in zip(near.tolist(), got.tolist(), strict=True):
            want = nearest_to_fraction(fmt, Fraction(value), rounding)
            assert pattern == min(want, fmt.max_finite_bits), (fmt, value)
