"""tilewright.golden.bfp against an implementation with fractions, value by value."""

from fractions import Fraction

import numpy as np
import pytest

from tilewright.golden import bfp
from tilewright.golden.params.formats import FP16, BlockFormat
from tilewright.golden.vectors import corners

FINITE_CORNERS = [b for b in corners(FP16).tolist() if b & 0x7FFF <= FP16.max_finite_bits]


def exact_blocks(fmt, row):
    """One row by the definition: lists of groups of (sign, mantissa), and the shared exponents."""
    row = [*row, *[0] * (-len(row) % fmt.group)]
    groups, exponents = [], []
    for start in range(0, len(row), fmt.group):
        patterns = row[start : start + fmt.group]
        shared = max(max((p >> 10) & 31, 1) for p in patterns)
        lsb = Fraction(2) ** (shared - 15 - (fmt.mantissa_bits - 1))
        magnitudes = [abs(Fraction(float(np.uint16(p).view(np.float16)))) for p in patterns]
        groups.append([(p >> 15, int(m / lsb)) for p, m in zip(patterns, magnitudes, strict=True)])
        exponents.append(shared)
    return groups, exponents


def rows(rng, count, length):
    """fp16 patterns, finite: corners, uniform patterns, and values of one magnitude."""
    uniform = rng.integers(0, 1 << 16, (count, length), np.uint16)
    uniform = np.where(uniform & 0x7FFF > FP16.max_finite_bits, uniform & 0x83FF, uniform)
    close = rng.standard_normal((count, length)).astype(np.float16).view(np.uint16)
    corner = rng.choice(np.array(FINITE_CORNERS, np.uint16), (count, length))
    return np.concatenate([uniform, close, corner])


@pytest.mark.parametrize("mantissa_bits", range(1, 17))
@pytest.mark.parametrize(("group", "length"), [(64, 128), (32, 70), (5, 13), (1, 4)])
def test_encode_and_decode_exactly(group, length, mantissa_bits):
    fmt = BlockFormat(group=group, mantissa_bits=mantissa_bits)
    data = rows(np.random.default_rng(mantissa_bits), 4, length)
    blocks = bfp.encode(fmt, data)
    decoded = bfp.decode(fmt, blocks)
    assert decoded.shape == data.shape
    for k, row in enumerate(data.tolist()):
        groups, exponents = exact_blocks(fmt, row)
        assert blocks.exponent[k].tolist() == exponents
        assert blocks.sign[k].tolist() == [[s == 1 for s, _ in g] for g in groups]
        assert blocks.mantissa[k].tolist() == [[m for _, m in g] for g in groups]
        lsb = [Fraction(2) ** (e - 15 - (mantissa_bits - 1)) for e in exponents]
        pairs = [(s, m * step) for g, step in zip(groups, lsb, strict=True) for s, m in g]
        assert [Fraction(v) for v in np.abs(decoded[k])] == [m for _, m in pairs[:length]]
        assert np.signbit(decoded[k]).tolist() == [s == 1 for s, _ in pairs[:length]]


def test_shapes_and_dtypes():
    data = np.full((2, 3, 8), 0x3C00)
    narrow = bfp.encode(BlockFormat(group=4, mantissa_bits=8), data)
    assert narrow.mantissa.dtype == np.uint8 and narrow.exponent.dtype == np.uint8
    assert narrow.mantissa.shape == (2, 3, 2, 4) and narrow.exponent.shape == (2, 3, 2)
    assert bfp.encode(BlockFormat(group=4, mantissa_bits=9), data).mantissa.dtype == np.uint16
    empty = bfp.encode(BlockFormat(group=4, mantissa_bits=8), np.zeros((3, 0), np.uint16))
    assert empty.mantissa.shape == (3, 0, 4)


@pytest.mark.parametrize(
    ("bits", "name"), [(0x7C00, "infinity"), (0xFC00, "infinity"), (0x7C01, "NaN"), (0xFE00, "NaN")]
)
def test_refuses_infinity_and_nan_with_the_position(bits, name):
    fmt = BlockFormat(group=64, mantissa_bits=8)
    data = np.full((3, 100), 0x3C00, np.uint16)
    data[1, 70] = bits
    data[2, 1] = 0x7C00  # not the first
    message = rf"^{name} at \(1, 70\) has no block floating point value$"
    with pytest.raises(ValueError, match=message):
        bfp.encode(fmt, data)


def test_refusal_names_the_first_of_many_pieces():
    data = np.zeros((2048, 128), np.uint16)  # several pieces of work
    data[700, 5] = data[1900, 3] = 0x7C00
    message = r"^infinity at \(700, 5\) has no block floating point value$"
    with pytest.raises(ValueError, match=message):
        bfp.encode(BlockFormat(group=64, mantissa_bits=8), data)


@pytest.mark.parametrize("mantissa_bits", [1, 8, 11, 16])
def test_saturation_counts_infinity_and_nan_as_the_largest_magnitude(mantissa_bits):
    fmt = BlockFormat(group=4, mantissa_bits=mantissa_bits)
    got = bfp.encode(fmt, [0x7C00, 0xFC00, 0x7E00, 0xFFFF, 0x3C00, 1, 2, 3], saturate=True)
    want = bfp.encode(fmt, [0x7BFF, 0xFBFF, 0x7BFF, 0xFBFF, 0x3C00, 1, 2, 3])
    assert np.array_equal(got.sign, want.sign)
    assert np.array_equal(got.mantissa, want.mantissa)
    assert np.array_equal(got.exponent, want.exponent)


def test_large_arrays_equal_their_rows():
    fmt = BlockFormat(group=64, mantissa_bits=6)
    data = rows(np.random.default_rng(3), 500, 200)
    whole = bfp.encode(fmt, data)
    for k in (0, 1, 511, 777, 1499):
        row = bfp.encode(fmt, data[k])
        assert np.array_equal(whole.mantissa[k], row.mantissa)
        assert np.array_equal(whole.sign[k], row.sign)
        assert np.array_equal(whole.exponent[k], row.exponent)


def test_refuses_a_scalar_and_what_is_no_fp16():
    fmt = BlockFormat(group=4, mantissa_bits=8)
    with pytest.raises(ValueError, match=r"^block floating point groups along the last axis; a"):
        bfp.encode(fmt, 0x3C00)
    with pytest.raises(ValueError, match=r"^fp16 patterns must be integers, not float16$"):
        bfp.encode(fmt, np.ones(4, np.float16))
