"""Results that flush subnormals, against sources that do not share golden's reading of the rule.

A result is rounded to full precision as if the exponent had no lower limit, and is flushed if it is
then below the smallest normal. The sources are exact fractions, on every machine; and, where the
processor is an x86 with FMA, its own fused multiply-add with flush-to-zero and denormals-are-zero
set. Other processors may have another rule (AArch64 flushes before it rounds), so nothing is asked
of them. ``test_sparamx_silicon.py`` compares what was recorded on an x86 with AMX, everywhere.
"""

from fractions import Fraction
from itertools import product

import numpy as np
import pytest

from tests.support.oracles import DTYPES, all_patterns, fraction, values, without_limits, word
from tests.support.record_amx import registers_in_window, scalars_in_window
from tests.support.silicon import fma_that_flushes, why_not
from tilewright.golden.amx import vdpbf16ps
from tilewright.golden.arith import add, convert, fma, multiply
from tilewright.golden.bits import encode, round_pack
from tilewright.golden.params.arith import AMX_RULES, FloatRules
from tilewright.golden.params.formats import (
    BF16,
    E5M2,
    E8M0,
    FP16,
    FP32,
    Overflow,
    Rounding,
    Subnormals,
)

SMALLEST = 0x00800000  # 2^-126 in fp32
RULES = [
    FloatRules(rounding=rounding, operand_subnormals=operand, result_subnormals=Subnormals.FLUSH)
    for rounding, operand in product(Rounding, Subnormals)
]
every_rule = pytest.mark.parametrize(
    "rules", RULES, ids=lambda r: f"{r.rounding.value}-{r.operand_subnormals.value}"
)


def flushed(fmt, exact, rules):
    """Pattern of a fraction that does not overflow."""
    sign = (exact < 0) << (fmt.bits - 1)
    rounded = without_limits(fmt, abs(exact), rules.rounding) if exact else exact
    if rounded < Fraction(2) ** fmt.min_exponent:
        return sign
    value = np.array([float(rounded)], np.float32).astype(DTYPES[fmt.name])
    assert Fraction(float(value[0])) == rounded  # which is a value of the format
    return int(value.view(word(fmt))[0]) | sign


def operand(fmt, bits, rules):
    value = fraction(fmt, bits)
    flush = rules.operand_subnormals is Subnormals.FLUSH
    return Fraction(0) if flush and abs(value) < Fraction(2) ** fmt.min_exponent else value


def test_every_bf16_element_times_every_e8m0_scale():
    """All 65,536 x 256 products: fractions of each significand at each sum of exponents."""
    fields = np.arange(1, 255 + 255)  # of the element, 1..254, and of the scale, 0..254
    table = np.zeros((len(fields) + 1, 128), np.int64)
    for total in fields.tolist():
        for fraction_bits in range(128):
            exact = Fraction(128 + fraction_bits, 128) * Fraction(2) ** (total - 254)
            rounded = without_limits(BF16, exact, Rounding.NEAREST_EVEN)
            if rounded >= Fraction(2) ** 128:
                table[total, fraction_bits] = 0x7F80
            elif rounded >= Fraction(2) ** -126:
                # A power of two times a number of 8 bits: float32 holds it exactly.
                word = np.float32(rounded).view(np.uint32)
                assert word & 0xFFFF == 0
                table[total, fraction_bits] = word >> 16
    elements = np.arange(1 << 16)
    field, low, sign = elements >> 7 & 255, elements & 127, elements & 0x8000
    for scale in range(256):
        got = multiply(BF16, E8M0, BF16, elements, scale, AMX_RULES)
        want = sign | np.where(field == 0, 0, table[np.minimum(field + scale, 509), low])
        want[field == 255] = np.where(low, 0x7FC0, sign | 0x7F80)[field == 255]
        want = want if scale < 255 else 0x7FC0
        assert np.array_equal(got, np.broadcast_to(want, got.shape)), scale


@every_rule
def test_fused_sums_near_the_smallest_normal(rules):
    """Running sums of a few ulps around 2^-126 plus products below 2^-149, both signs."""
    c, a, b = (x.ravel()[::3] for x in scalars_in_window())
    got = fma(FP32, FP32, FP32, FP32, a, b, c, rules)
    differ = 0
    for k in range(len(a)):
        x, y, z = (operand(FP32, v[k], rules) for v in (a, b, c))
        exact = x * y + z
        if not exact:  # two zeros, with signs of their own
            continue
        assert got[k] == flushed(FP32, exact, rules), (hex(a[k]), hex(b[k]), hex(c[k]))
        ulps = abs(exact) * 2**149
        on_their_grid = round(ulps) if rules.rounding is Rounding.NEAREST_EVEN else int(ulps)
        differ += (on_their_grid == SMALLEST) != (got[k] & 0x7FFFFFFF == SMALLEST)
    # Rounding on the subnormals' own grid first would be another rule, and only to nearest.
    assert (differ > 0) == (rules.rounding is Rounding.NEAREST_EVEN)


@every_rule
def test_products_near_the_smallest_normal(rules):
    """bf16 and fp32 products whose exact value rounds to either side of the smallest normal."""
    rng = np.random.default_rng(31)
    for fmt in (BF16, FP32):
        a = encode(fmt, rng.uniform(1, 2, 400) * 2.0**-63)
        wanted = 2.0**fmt.min_exponent * (1 - rng.uniform(-1, 3, 400) * 2.0**-fmt.significand_bits)
        b = encode(fmt, wanted / values(fmt, a) * rng.choice([-1.0, 1.0], 400))
        got = multiply(fmt, fmt, fmt, a, b, rules)
        for x, y, bits in zip(a, b, got, strict=True):
            exact = operand(fmt, x, rules) * operand(fmt, y, rules)
            negative = (y >> (fmt.bits - 1)) << (fmt.bits - 1)
            want = flushed(fmt, abs(exact), rules) | negative
            assert bits == want, (hex(x), hex(y))
        assert {0, 1 << fmt.mantissa_bits} <= set(got.tolist())


@every_rule
@pytest.mark.parametrize(
    ("source", "target"), [(FP32, BF16), (FP16, E5M2), (FP32, FP16), (BF16, FP16), (FP16, BF16)]
)
def test_conversions_near_the_smallest_normal(source, target, rules):
    """Every pattern of fp16 and bf16; of fp32 all within two ulps of the target."""
    if source.bits <= 16:
        bits = all_patterns(source)
    else:
        smallest = int(encode(source, [2.0**target.min_exponent])[0])
        reach = 2 << (source.mantissa_bits - target.mantissa_bits)
        bits = np.arange(smallest - reach, smallest + reach, 37 if reach < 20000 else 251)
        edge = smallest - reach // 8 + np.arange(-3, 4)  # where rounding changes its mind
        bits = np.concatenate([bits, edge]).astype(np.uint32)
        bits = np.concatenate([bits, bits | np.uint32(0x80000000)])
    got = convert(source, target, bits, rules)
    whole = encode(target, values(source, bits, rules), rules)
    assert np.array_equal(got, whole)  # by way of float64
    with np.errstate(invalid="ignore"):  # a signalling NaN of fp16 may still be one
        near = np.abs(values(source, bits)) / 2.0**target.min_exponent
    for x, y in zip(
        bits[(near > 0.9) & (near < 1.1)], got[(near > 0.9) & (near < 1.1)], strict=True
    ):
        sign = int(x) >> (source.bits - 1) << (target.bits - 1)
        want = flushed(target, abs(operand(source, x, rules)), rules)
        assert y == want | sign, hex(x)


@every_rule
def test_sums_near_the_smallest_normal_are_exact(rules):
    """fp32 sums below 2^-126 are multiples of 2^-149: nothing is rounded, and all are flushed."""
    a = SMALLEST + np.arange(64, dtype=np.uint32)
    b = (SMALLEST << 1) + np.arange(64, dtype=np.uint32)[:, np.newaxis] | np.uint32(1 << 31)
    got = add(FP32, FP32, FP32, a, b, rules)
    exact = values(FP32, np.broadcast_to(a, got.shape)) + values(FP32, b)
    want = np.where(exact <= -(2.0**-126), encode(FP32, exact), 1 << 31)
    assert np.array_equal(got, want)


@pytest.mark.parametrize("overflow", Overflow)
@pytest.mark.parametrize("width", [24, 25, 62])
def test_toward_zero_never_leaves_the_finite_numbers(overflow, width):
    """IEEE 754: rounded toward zero, whatever is finite stays finite."""
    rules = FloatRules(rounding=Rounding.TOWARD_ZERO, overflow=overflow)
    ones, top = (1 << width) - 1, 1 << (width - 1)
    got = round_pack(FP32, [0, 1], [127, 127], [ones] * 2, True, rules, significand_bits=width)
    assert got.tolist() == [0x7F7FFFFF, 0xFF7FFFFF]
    got = round_pack(FP32, [0, 1], [128, 5000], [top] * 2, False, rules, significand_bits=width)
    assert got.tolist() == [0x7F7FFFFF, 0xFF7FFFFF]
    largest = 0x7F7FFFFF
    assert fma(FP32, FP32, FP32, FP32, largest, largest, largest, rules) == largest
    assert add(FP32, FP32, FP32, largest, 0x7F800000, rules) == 0x7F800000


# --- the processor's own fused multiply-add


def test_fused_sums_equal_those_of_the_processor(tmp_path):
    c, a, b = scalars_in_window()
    reason = why_not("FMA", {"fma"})
    if reason:
        pytest.skip(f"{reason}; fractions stand in for it")
    want = fma_that_flushes(c, a, b, tmp_path)
    assert np.array_equal(fma(FP32, FP32, FP32, FP32, a, b, c, AMX_RULES), want)


@pytest.mark.parametrize("source", ["fractions", "processor"])
def test_vector_order_equals_fused_sums_of_another_source(source, tmp_path):
    """VDPBF16PS is two fused multiply-adds: here by fractions, or by the processor's FMA."""
    c, a, b = registers_in_window()
    got, want = vdpbf16ps(c, a, b), c.copy()
    for parity in (1, 0):
        x, y = (v[:, parity::2].astype(np.uint32) << 16 for v in (a, b))
        if source == "processor":
            reason = why_not("FMA", {"fma"})
            if reason:
                pytest.skip(f"{reason}; fractions stand in for it")
            want = fma_that_flushes(want, x, y, tmp_path)
        else:
            for index in np.ndindex(want.shape):
                terms = (fraction(FP32, v[index]) for v in (x, y, want))
                exact = next(terms) * next(terms) + next(terms)
                both_negative = (x[index] ^ y[index]) & want[index] & (1 << 31)
                want[index] = flushed(FP32, exact, AMX_RULES) if exact else both_negative
    assert np.array_equal(got, want)
