"""Formats against ml_dtypes' own descriptions, and what they refuse."""

import ml_dtypes
import numpy as np
import pytest

from tests.support.oracles import DTYPES, word
from tilewright.golden.params.formats import (
    BF16,
    E2M1,
    E4M3,
    E5M2,
    E8M0,
    FLOAT_FORMATS,
    FP16,
    FP32,
    BlockFormat,
    FloatFormat,
    IntFormat,
    float_format,
)


def value(fmt, bits):
    return float(np.array([bits], word(fmt)).view(DTYPES[fmt.name])[0])


@pytest.mark.parametrize("fmt", FLOAT_FORMATS.values(), ids=str)
def test_derived_values_as_ml_dtypes_states_them(fmt):
    info = ml_dtypes.finfo(DTYPES[fmt.name])
    assert fmt.bits == info.bits
    assert fmt.mantissa_bits == info.nmant
    assert value(fmt, fmt.max_finite_bits) == float(info.max)
    assert 2.0**fmt.min_exponent == float(info.smallest_normal)
    assert 2.0 ** (fmt.min_exponent - fmt.mantissa_bits) == float(info.smallest_subnormal)
    assert 2.0**fmt.max_exponent <= float(info.max) < 2.0 ** (fmt.max_exponent + 1)
    assert value(fmt, fmt.bias << fmt.mantissa_bits) == 1.0
    assert fmt.significand_bits == fmt.mantissa_bits + 1


def test_canonical_nans_and_infinities():
    nans = {f.name: f.nan_bits for f in FLOAT_FORMATS.values()}
    assert nans == {
        "bf16": 0x7FC0, "fp16": 0x7E00, "fp32": 0x7FC00000, "e5m2": 0x7E, "e4m3": 0x7F,
        "e3m2": None, "e2m3": None, "e2m1": None,
    }  # fmt: skip
    assert [f.infinity_bits for f in (BF16, FP16, FP32)] == [0x7F80, 0x7C00, 0x7F800000]
    assert [f.infinity_bits for f in (E5M2, E4M3, E2M1)] == [0x7C, None, None]


def test_scale_format():
    assert (E8M0.bits, E8M0.bias, E8M0.nan_bits, E8M0.significand_bits) == (8, 127, 0xFF, 1)
    assert str(E8M0) == "e8m0"


@pytest.mark.parametrize(
    ("bits", "low", "high"), [(1, -1, 0), (4, -8, 7), (32, -(2**31), 2**31 - 1)]
)
def test_int_format_range(bits, low, high):
    fmt = IntFormat(bits=bits)
    assert (fmt.minimum, fmt.maximum, str(fmt)) == (low, high, f"int{bits}")


def test_block_format_storage():
    """Anda's group of 64 with 8-bit mantissas: 64 signs, 512 mantissa bits, 5 exponent bits."""
    fmt = BlockFormat(group=64, mantissa_bits=8)
    assert (fmt.group_bits, fmt.exponent_bits, str(fmt)) == (64 + 512 + 5, 5, "bfp8g64")


def test_float_format_by_name():
    assert all(float_format(name) is fmt for name, fmt in FLOAT_FORMATS.items())
    message = "unknown float format 'fp8'; known: bf16, fp16, fp32, e5m2, e4m3, e3m2, e2m3, e2m1"
    with pytest.raises(ValueError, match=f"^{message}$"):
        float_format("fp8")


@pytest.mark.parametrize(
    ("build", "message"),
    [
        (lambda: FloatFormat(name="x", exponent_bits=1, mantissa_bits=3),
         "exponent_bits must be 2..8, not 1"),
        (lambda: FloatFormat(name="x", exponent_bits=11, mantissa_bits=3),
         "exponent_bits must be 2..8, not 11"),
        (lambda: FloatFormat(name="x", exponent_bits=5, mantissa_bits=0),
         "mantissa_bits must be 1..23, not 0"),
        (lambda: FloatFormat(name="x", exponent_bits=5, mantissa_bits=52),
         "mantissa_bits must be 1..23, not 52"),
        (lambda: IntFormat(bits=0), "bits must be 1..32, not 0"),
        (lambda: IntFormat(bits=33), "bits must be 1..32, not 33"),
        (lambda: BlockFormat(group=0, mantissa_bits=8), "group must be at least 1, not 0"),
        (lambda: BlockFormat(group=64, mantissa_bits=0), "mantissa_bits must be 1..16, not 0"),
        (lambda: BlockFormat(group=64, mantissa_bits=17), "mantissa_bits must be 1..16, not 17"),
    ],
)  # fmt: skip
def test_refusals_name_the_value(build, message):
    with pytest.raises(ValueError) as refusal:
        build()
    assert str(refusal.value) == message
