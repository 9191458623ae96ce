"""tilewright.golden.bits against numpy, ml_dtypes and the definition of rounding itself."""

from fractions import Fraction

import ml_dtypes
import numpy as np
import pytest

from tests.support.oracles import (
    ALL_RULES,
    DTYPES,
    UNNAMED_FORMATS,
    all_patterns,
    canonical,
    nearest,
    nearest_to_fraction,
    rules_id,
    values,
    word,
)
from tilewright.golden.bits import (
    bit_length,
    bits_dtype,
    decode,
    decode_int,
    decode_scale,
    encode,
    encode_int,
    round_pack,
    unpack,
)
from tilewright.golden.params.arith import IEEE_RULES, FloatRules
from tilewright.golden.params.formats import (
    BF16,
    E2M1,
    E3M2,
    E4M3,
    E5M2,
    E8M0,
    FLOAT_FORMATS,
    FP16,
    FP32,
    FloatFormat,
    IntFormat,
    Overflow,
    Rounding,
    Subnormals,
)
from tilewright.golden.vectors import corners

FORMATS = [*FLOAT_FORMATS.values(), *UNNAMED_FORMATS]
SMALL_FORMATS = [f for f in FORMATS if f.bits <= 16]  # small enough to try every pattern
RESULT_RULES = [r for r in ALL_RULES if r.operand_subnormals is Subnormals.KEEP]


def same_values(got, want):
    """Equal as float64 patterns, any NaN standing for any other."""
    nan = np.isnan(want)
    return np.array_equal(np.isnan(got), nan) and np.array_equal(
        got[~nan].view(np.int64), want[~nan].view(np.int64)
    )


def some_patterns(fmt: FloatFormat, seed: int, count: int = 1 << 18):
    """Every pattern of a small format; corners and random ones of a large one."""
    if fmt in SMALL_FORMATS:
        return all_patterns(fmt)
    rng = np.random.default_rng(seed)
    return np.concatenate([corners(fmt), rng.integers(0, 1 << fmt.bits, count, bits_dtype(fmt))])


@pytest.mark.parametrize("fmt", FORMATS, ids=str)
def test_decode_every_pattern(fmt):
    bits = some_patterns(fmt, 1)
    assert same_values(decode(fmt, bits), values(fmt, bits))


@pytest.mark.parametrize("fmt", FORMATS, ids=str)
def test_encode_undoes_decode(fmt):
    bits = some_patterns(fmt, 2)
    assert np.array_equal(encode(fmt, decode(fmt, bits)), canonical(fmt, bits))


@pytest.mark.parametrize("fmt", FORMATS, ids=str)
def test_unpack_is_normalised_and_exact(fmt):
    bits = some_patterns(fmt, 3)
    x, want = unpack(fmt, bits), values(fmt, bits)
    assert np.array_equal(x.nan, np.isnan(want))
    assert np.array_equal(x.infinite, np.isinf(want))
    assert np.array_equal(x.zero, want == 0)
    assert np.array_equal(x.sign, bits >> (fmt.bits - 1) == 1)
    number = ~(x.nan | x.infinite | x.zero)
    assert (x.significand[number] >> fmt.mantissa_bits == 1).all()
    assert not x.significand[~number].any() and not x.exponent[~number].any()
    exact = np.ldexp(x.significand.astype(np.float64), x.exponent - fmt.mantissa_bits)
    assert np.array_equal(exact[number], np.abs(want[number]))


@pytest.mark.parametrize("fmt", FORMATS, ids=str)
def test_unpack_flushes_subnormal_operands(fmt):
    bits = some_patterns(fmt, 4)
    subnormal = (np.abs(values(fmt, bits)) < 2.0**fmt.min_exponent) & (values(fmt, bits) != 0)
    assert subnormal.any()
    flushed = unpack(fmt, np.where(subnormal, bits & (1 << (fmt.bits - 1)), bits))
    for got, want in zip(unpack(fmt, bits, Subnormals.FLUSH), flushed, strict=True):
        assert np.array_equal(got, want)


@pytest.mark.parametrize("rounding", Rounding)
@pytest.mark.parametrize("fmt", SMALL_FORMATS, ids=str)
def test_encode_midpoints_and_their_neighbours(fmt, rounding):
    """Between every two adjacent values: the tie, and the float64 on each side of it."""
    lower = np.arange(fmt.max_finite_bits)
    value = values(fmt, np.arange(fmt.max_finite_bits + 1))
    middle = (value[:-1] + value[1:]) / 2
    nearest_even = rounding is Rounding.NEAREST_EVEN
    expected = {
        "value": (value[:-1], lower),
        "above value": (np.nextafter(value[:-1], np.inf), lower),
        "below middle": (np.nextafter(middle, 0), lower),
        "middle": (middle, lower + (lower % 2 if nearest_even else 0)),
        "above middle": (np.nextafter(middle, np.inf), lower + nearest_even),
        "below next": (np.nextafter(value[1:], 0), lower + nearest_even),
    }
    sign = 1 << (fmt.bits - 1)
    for name, (inputs, want) in expected.items():
        assert np.array_equal(encode(fmt, inputs, FloatRules(rounding=rounding)), want), name
        negative = encode(fmt, -inputs, FloatRules(rounding=rounding))
        assert np.array_equal(negative, want + sign), f"-{name}"


@pytest.mark.parametrize("source", [FP16, BF16], ids=str)
@pytest.mark.parametrize("fmt", FORMATS, ids=str)
def test_encode_every_16_bit_value_as_numpy_and_ml_dtypes_do(fmt, source):
    exact = values(source, all_patterns(source))
    with np.errstate(all="ignore"):
        want = exact.astype(np.float32).astype(DTYPES[fmt.name]).view(word(fmt))
    if fmt.nan_bits is None:  # ml_dtypes makes -0 of NaN, and +0 of -NaN, which does not exist here
        want = np.where(np.isnan(exact), 1 << (fmt.bits - 1), want)
    assert np.array_equal(encode(fmt, exact), canonical(fmt, want.astype(word(fmt))))


@pytest.mark.parametrize("rules", ALL_RULES, ids=rules_id)
@pytest.mark.parametrize("fmt", FORMATS, ids=str)
def test_encode_under_all_rules(fmt, rules):
    """Random float64 values across, below and above the format's range, ends and specials too."""
    rng = np.random.default_rng(5)
    low, high = fmt.min_exponent - fmt.mantissa_bits - 3, fmt.max_exponent + 3
    exact = np.ldexp(rng.uniform(-2, 2, 1 << 14), rng.integers(low, high, 1 << 14))
    largest = values(fmt, np.array([fmt.max_finite_bits]))[0]
    tie = largest + 2.0 ** (fmt.max_exponent - fmt.mantissa_bits - 1)
    ends = [0.0, np.inf, np.nan, 5e-324, 1e308, largest, tie]
    ends += [np.nextafter(tie, 0), np.nextafter(tie, np.inf)]
    exact = np.concatenate([ends, np.negative(ends), exact])
    assert np.array_equal(encode(fmt, exact, rules), nearest(fmt, exact, rules))


@pytest.mark.parametrize("rules", RESULT_RULES, ids=rules_id)
@pytest.mark.parametrize("fmt", [E2M1, E4M3, E5M2, BF16, FP32], ids=str)
def test_round_pack_against_fractions(fmt, rules):
    """Significands of every width with leading zeros and sticky tails."""
    rng = np.random.default_rng(6)
    flush = rules.result_subnormals is Subnormals.FLUSH
    for width in (1, 2, 5, 24, 53, 62):
        cases = 40
        significand = rng.integers(1, 1 << width, cases) >> rng.integers(0, width, cases)
        significand = np.maximum(significand, 1)
        lowest = fmt.min_exponent - fmt.mantissa_bits - 4
        exponent = rng.integers(lowest, fmt.max_exponent + 2, cases) + rng.integers(0, width, cases)
        sign, sticky = rng.integers(0, 2, (2, cases))
        got = round_pack(fmt, sign, exponent, significand, sticky, rules, significand_bits=width)
        for k in range(cases):
            lsb = Fraction(2) ** int(exponent[k] - (width - 1))
            tail = lsb / 2**200 * int(sticky[k])  # far below half of anything
            exact = int(significand[k]) * lsb + tail
            want = nearest_to_fraction(fmt, exact, rules.rounding, flush)
            want = finish(fmt, want, int(sign[k]), rules)
            assert got[k] == want, (width, significand[k], exponent[k], sign[k], sticky[k])


def finish(fmt, magnitude, sign, rules):
    """Sign and overflow of a magnitude as the parameter enums describe them."""
    negative = sign << (fmt.bits - 1)
    if magnitude > fmt.max_finite_bits:
        if rules.overflow is Overflow.SATURATE or fmt in (E3M2, E2M1):
            return fmt.max_finite_bits | negative
        return fmt.nan_bits if fmt is E4M3 else fmt.infinity_bits | negative
    return magnitude | negative


def test_zero_significand_is_zero_whatever_the_exponent():
    got = round_pack(FP16, [0, 1, 0, 1], [0, -5000, 32767, 32767], [0] * 4, significand_bits=24)
    assert got.tolist() == [0x0000, 0x8000, 0x0000, 0x8000]
    got = round_pack(FP16, 0, [32767, -32768], [1 << 23, 1 << 23], True, significand_bits=24)
    assert got.tolist() == [0x7C00, 0x0000]  # others overflow and vanish


@pytest.mark.parametrize("width", [3, 24, 53, 61, 62])
def test_values_below_half_the_smallest_subnormal_vanish(width):
    """All ones, up to five binades below the smallest subnormal: only the first rounds up."""
    lowest = FP16.min_exponent - FP16.mantissa_bits
    exponent = lowest - np.arange(1, 6)
    ones = np.full(5, (1 << width) - 1)
    got = round_pack(FP16, 0, exponent, ones, False, IEEE_RULES, significand_bits=width)
    assert got.tolist() == [1, 0, 0, 0, 0]


def test_bit_length_of_every_power_and_its_neighbours():
    powers = [1 << k for k in range(63)]
    numbers = sorted({p + d for p in powers for d in (-1, 0, 1)})
    assert bit_length(np.array(numbers)).tolist() == [n.bit_length() for n in numbers]


def test_flags_override_the_number_and_nan_overrides_infinity():
    flags = {"infinite": [0, 1, 1, 1], "nan": [0, 0, 1, 0]}
    got = round_pack(BF16, [1, 1, 1, 0], 0, [1, 0, 1, 1], significand_bits=1, **flags)
    assert got.tolist() == [0xBF80, 0xFF80, 0x7FC0, 0x7F80]


def test_sticky_tail_is_less_than_half_of_the_last_bit():
    """With the last significand bit kept, a tail alone never rounds up; behind a tie it does."""
    got = round_pack(E4M3, 0, 0, [0b1000, 0b1001, 0b1111], True, IEEE_RULES, significand_bits=4)
    assert got.tolist() == [0x38, 0x39, 0x3F]
    got = round_pack(E4M3, 0, 0, [0b10001, 0b10000], True, IEEE_RULES, significand_bits=5)
    assert got.tolist() == [0x39, 0x38]
    got = round_pack(E4M3, 0, 0, [0b10001, 0b10011], False, IEEE_RULES, significand_bits=5)
    assert got.tolist() == [0x38, 0x3A]


@pytest.mark.parametrize("fmt", FORMATS, ids=str)
def test_nan_becomes_the_canonical_nan_or_negative_zero(fmt):
    want = {"bf16": 0x7FC0, "fp16": 0x7E00, "fp32": 0x7FC00000, "e5m2": 0x7E, "e4m3": 0x7F}
    want |= {"e4m3_ieee": 0x7C, "e3m4": 0x78}
    without_nan = {"e3m2": 0x20, "e2m3": 0x20, "e2m1": 0x8}  # -0, as ml_dtypes converts NaN
    expected = (want | without_nan)[fmt.name]
    for rules in ALL_RULES:
        assert encode(fmt, [np.nan, -np.nan], rules).tolist() == [expected] * 2
    if fmt in SMALL_FORMATS and fmt.nan_bits is None:
        theirs = np.array([np.nan], np.float32).astype(DTYPES[fmt.name]).view(word(fmt))
        assert theirs[0] == expected


def test_scale_decode_every_byte_as_ml_dtypes_does():
    bits = np.arange(256, dtype=np.uint8)
    want = bits.view(ml_dtypes.float8_e8m0fnu).astype(np.float64)
    assert same_values(decode_scale(E8M0, bits), want)


def test_scale_unpack_covers_both_ends():
    x = unpack(E8M0, [0, 127, 254, 255])
    assert x.exponent.tolist() == [-127, 0, 127, 0]
    assert x.significand.tolist() == [1, 1, 1, 0]
    assert x.nan.tolist() == [False, False, False, True]


@pytest.mark.parametrize("width", [1, 2, 4, 7, 8, 16, 32])
def test_int_encode_rounds_and_saturates(width):
    fmt = IntFormat(bits=width)
    halves = np.arange(-5, 6) / 2
    inputs = np.concatenate([halves, fmt.minimum + halves, fmt.maximum + halves])
    want = [min(max(round(Fraction(v)), fmt.minimum), fmt.maximum) for v in inputs.tolist()]
    bits = encode_int(fmt, inputs)
    assert bits.dtype == bits_dtype(fmt) and bits.max() < 1 << width
    assert decode_int(fmt, bits).tolist() == want
    edges = encode_int(fmt, [np.inf, -np.inf, 1e300])
    assert decode_int(fmt, edges).tolist() == [fmt.maximum, fmt.minimum, fmt.maximum]


def test_int_encode_toward_zero():
    got = encode_int(IntFormat(bits=4), [1.9, -1.9, 99.0, -99.0], Rounding.TOWARD_ZERO)
    assert decode_int(IntFormat(bits=4), got).tolist() == [1, -1, 7, -8]


def test_int_decode_every_pattern_as_ml_dtypes_does():
    assert decode_int(IntFormat(bits=8), np.arange(256)).tolist() == (
        np.arange(256, dtype=np.uint8).view(np.int8).tolist()
    )
    fours = np.arange(16, dtype=np.uint8).view(ml_dtypes.int4).astype(np.int64)
    assert decode_int(IntFormat(bits=4), np.arange(16)).tolist() == fours.tolist()


def test_int_encode_refuses_nan_with_its_position():
    with pytest.raises(ValueError, match=r"^NaN at \(1, 0\) has no int8 value$"):
        encode_int(IntFormat(bits=8), [[1.0, 2.0], [np.nan, np.nan]])


@pytest.mark.parametrize(
    ("fmt", "bits", "message"),
    [
        (E2M1, [3, 16], "0x10 is not a 4-bit pattern of e2m1"),
        (E4M3, [-1], "-0x1 is not a 8-bit pattern of e4m3"),
        (FP16, [1.0], "fp16 patterns must be integers, not float64"),
    ],
)
def test_refuses_what_is_no_pattern(fmt, bits, message):
    with pytest.raises(ValueError, match=f"^{message}$"):
        decode(fmt, bits)


def test_round_pack_refuses_widths_it_cannot_hold():
    with pytest.raises(ValueError, match=r"^significand_bits must be 1\.\.62, not 63$"):
        round_pack(FP16, 0, 0, 1, 0, IEEE_RULES, significand_bits=63)
    with pytest.raises(ValueError, match=r"^significand 0x10 is not a 4-bit number$"):
        round_pack(FP16, 0, 0, [15, 16], 0, IEEE_RULES, significand_bits=4)
    with pytest.raises(ValueError, match=r"^significand -0x1 is not a 4-bit number$"):
        round_pack(FP16, 0, 0, [15, -1], 0, IEEE_RULES, significand_bits=4)


def test_shapes_and_dtypes():
    assert decode(FP16, 0x3C00).shape == () and decode(FP16, 0x3C00) == 1.0
    assert encode(E4M3, 1.0).dtype == np.uint8
    grid = np.arange(24, dtype=np.uint16).reshape(2, 3, 4)
    assert np.array_equal(decode(FP16, grid[:, ::2, ::-1]), decode(FP16, grid)[:, ::2, ::-1])
    assert decode(FP16, np.zeros((0, 3), np.uint16)).shape == (0, 3)
    assert bits_dtype(FP32) == np.uint32 and bits_dtype(BF16) == np.uint16
