"""Fast block floating point against tilewright.golden.bfp, in every bit."""

import numpy as np
import pytest

from tilewright.golden import bfp
from tilewright.golden.llm.formats import truncate
from tilewright.golden.params.formats import BlockFormat


def spread_values(rng, shape):
    """Magnitudes from below fp16's smallest to beyond its largest; ties and zeros among them."""
    values = np.ldexp(rng.standard_normal(shape), rng.integers(-30, 17, shape)).astype(np.float32)
    values[::4] = np.ldexp(np.rint(4096 * values[::4]), -13)  # fp16 sees ties
    values[1::4] *= np.float32(2.0**-14)  # groups of subnormals
    values[2::8] = 0
    values[3, ::5] = -0.0
    return values


def expected(values, group, mantissa_bits):
    fmt = BlockFormat(group=group, mantissa_bits=mantissa_bits)
    with np.errstate(over="ignore"):
        halves = values.astype(np.float16).view(np.uint16)
    return bfp.decode(fmt, bfp.encode(fmt, halves, saturate=True)).astype(np.float32)


@pytest.mark.parametrize("group", [1, 3, 32, 64, 1000])
@pytest.mark.parametrize("mantissa_bits", [1, 4, 8, 11, 13, 16])
def test_every_bit_is_golden(group, mantissa_bits):
    values = spread_values(np.random.default_rng(group), (40, 200))
    want = expected(values, group, mantissa_bits)
    got = truncate(values, group, mantissa_bits)
    assert np.array_equal(got.view(np.uint32), want.view(np.uint32))


@pytest.mark.parametrize("special", [np.inf, -np.inf, np.nan, 7e4, 65519.9, 65520.0])
def test_beyond_fp16_saturates(special):
    values = np.linspace(-3, 3, 256, dtype=np.float32).reshape(4, 64)
    values[2, 7] = special
    want = expected(values, 64, 8)
    got = truncate(values, 64, 8)
    assert np.array_equal(got.view(np.uint32), want.view(np.uint32))
    assert abs(got[2, 7]) == 65280  # the largest magnitude of 8 mantissa bits


def test_many_axes_and_arrays_that_are_not_contiguous():
    values = spread_values(np.random.default_rng(5), (12, 10, 96))
    want = expected(values, 32, 6)
    turned = np.asfortranarray(values)
    assert np.array_equal(truncate(turned, 32, 6), want)
    assert np.array_equal(truncate(values, 32, 6), want)
    assert truncate(np.zeros((0, 64), np.float32), 64, 8).shape == (0, 64)


@pytest.mark.parametrize(
    ("values", "bits", "complaint"),
    [
        (np.zeros(4), 8, "^values must be float32, not float64$"),
        (np.float32(1), 8, "a scalar has none$"),
        (np.zeros(64, np.float32), 17, "^mantissa_bits must be .*, not 17$"),
    ],
)
def test_refusals(values, bits, complaint):
    with pytest.raises(ValueError, match=complaint):
        truncate(np.asarray(values), 64, bits)
