"""The int8 quantiser that Harmonia's converter is compared with."""

from fractions import Fraction

import numpy as np
import pytest

from tilewright.golden.bits import decode
from tilewright.golden.harmonia.int8_quantiser import quantise
from tilewright.golden.params.formats import FP16
from tilewright.golden.params.harmonia import Int8QuantiserParams

PAPER = Int8QuantiserParams()


@pytest.mark.parametrize("shift", [0, 5, 14])
def test_codes_are_the_nearest_but_for_the_factors_last_bits(shift):
    """A factor is cut after 6 of its bits, which costs a 64th of a code here beside rounding."""
    rng = np.random.default_rng(shift)
    values = (rng.standard_t(3, (320, 8)) / 2**shift).astype(np.float16).view(np.uint16)
    got = quantise(PAPER, {"values": values})
    exact = decode(FP16, values).reshape(10, 32, 8)
    largest = np.abs(exact).max(axis=1, keepdims=True)
    error = np.abs(got["codes"].reshape(10, 32, 8) - 127 * exact / largest)
    bound = Fraction(1, 2) + Fraction(1, 64)
    assert error.max() <= bound
    np.testing.assert_array_equal(
        decode(FP16, got["largest"].astype(np.uint16)).reshape(10, 32, 8),
        np.broadcast_to(largest, exact.shape),
    )


def test_the_largest_is_127_and_zeros_are_zero():
    values = np.zeros((32, 8), np.uint16)
    values[3, 0], values[4, 0], values[7, 1] = 0x3C00, 0xBC00, 0x0001
    codes = quantise(PAPER, {"values": values})["codes"]
    assert (codes[3, 0], codes[4, 0], codes[7, 1]) == (127, -127, 127)
    assert np.count_nonzero(codes) == 3


def test_specials_count_as_the_largest_finite_value():
    values = np.full((32, 8), 0x7BFF, np.uint16)
    values[0] = 0xFC00
    got = quantise(PAPER, {"values": values})
    assert (got["codes"][0] == -127).all() and (got["codes"][1:] == 127).all()
    assert (got["largest"] == FP16.max_finite_bits).all()
