"""Refusals and derived values of the arithmetic and stream blocks' parameters."""

import pytest

from tilewright.golden.params.arith import (
    AMX_RULES,
    IEEE_RULES,
    AdderTreeParams,
    FloatMulParams,
    FloatRoundParams,
    FloatRules,
    FloatUnpackParams,
    IntToFloatParams,
    LeadingZerosParams,
    PrefixSumParams,
    ShifterParams,
    signed_bits,
)
from tilewright.golden.params.formats import BF16, FP16, FP32, Overflow, Rounding, Subnormals
from tilewright.golden.params.resolve import resolve


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("float_mul,latency=-1", "latency must be 0..16, not -1"),
        ("float_mul,latency=17", "latency must be 0..16, not 17"),
        ("float_mul,lanes=0", "lanes must be 1..64, not 0"),
        ("leading_zeros,width=0", "width must be at least 1, not 0"),
        ("prefix_sum,width=1", "width must be at least 2, not 1"),
    ],
)
def test_refusals_name_the_value(text, message):
    """Limits are declared with their fields; one rule refuses what is outside."""
    with pytest.raises(ValueError) as refusal:
        resolve(text)
    assert str(refusal.value) == message


def test_rules_of_a_block():
    rules = FloatMulParams(
        rounding=Rounding.TOWARD_ZERO,
        overflow=Overflow.SATURATE,
        operand_subnormals=Subnormals.FLUSH,
    ).rules
    assert rules == FloatRules(
        rounding=Rounding.TOWARD_ZERO,
        overflow=Overflow.SATURATE,
        operand_subnormals=Subnormals.FLUSH,
    )
    assert FloatMulParams().rules == IEEE_RULES
    assert FloatMulParams.preset("amx").rules == AMX_RULES
    assert FloatRoundParams(result_subnormals=Subnormals.FLUSH).rules == FloatRules(
        result_subnormals=Subnormals.FLUSH
    )


@pytest.mark.parametrize(
    ("low", "high", "bits"),
    [(0, 0, 1), (0, 1, 2), (-1, 0, 1), (-1, 1, 2), (-2, 1, 2), (-3, 1, 3), (-149, 127, 9)],
)
def test_signed_bits_hold_the_range_and_no_less_would(low, high, bits):
    assert signed_bits(low, high) == bits
    assert -(1 << (bits - 1)) <= low and high < 1 << (bits - 1)
    if bits > 1:
        assert low < -(1 << (bits - 2)) or high >= 1 << (bits - 2)


@pytest.mark.parametrize(("fmt", "bits"), [(BF16, 9), (FP16, 6), (FP32, 9)])
def test_unpacked_exponents_reach_below_the_subnormals(fmt, bits):
    exponent = FloatUnpackParams(format=fmt).outputs[0].fields[1]
    assert (exponent.bits, exponent.signed) == (bits, True)


def test_lanes_widen_the_ports():
    params = FloatMulParams(lanes=4, out=FP32)
    assert [p.bits for p in (*params.inputs, *params.outputs)] == [4 * 32, 4 * 32]


def test_result_widths_are_exact():
    assert AdderTreeParams(terms=64, width=5).sum_bits == 11
    assert AdderTreeParams(terms=13, width=7).sum_bits == 11
    assert AdderTreeParams(terms=1, width=7).sum_bits == 7
    assert (PrefixSumParams(width=32).index_bits, PrefixSumParams(width=32).count_bits) == (5, 6)
    assert LeadingZerosParams(width=16).count_bits == 5  # 0..16
    assert ShifterParams(width=32).amount_bits == 6  # 0..63
    assert IntToFloatParams(bits=18).inputs[0].bits == 18


def test_latency_is_the_timing():
    assert FloatMulParams(latency=3).timing.latency == 3
    assert FloatMulParams().timing.interval == 1
