"""AMX multiplications: against exact fractions, plain loops and, where there is one, a real unit.

``pytest -m full`` on a processor with AMX compares many more tiles.
"""

from fractions import Fraction

import numpy as np
import pytest

from tests.support.oracles import without_limits
from tests.support.record_amx import tiles_in_window
from tests.support.silicon import Amx, why_not
from tilewright.golden.amx import interleave, tdpbf16ps, tdpbssd
from tilewright.golden.bits import decode, encode
from tilewright.golden.params.formats import BF16, FP32, Rounding
from tilewright.golden.vectors import operands

TINY = Fraction(1, 1 << 126)


def random_bf16(shape, rng):
    return rng.integers(0, 1 << 16, shape, np.uint16)


def moderate_bf16(shape, rng):
    """Numbers whose products and sums stay in range, cancel and round."""
    return encode(BF16, rng.normal(0, 1, shape) * 2.0 ** rng.integers(-6, 7, shape))


def tiny_bf16(shape, rng):
    """Numbers whose products straddle the smallest normal fp32."""
    return encode(BF16, rng.normal(0, 1, shape) * 2.0 ** rng.integers(-66, -58, shape))


def to_fp32(value: Fraction) -> Fraction:
    """Nearest of 24 bits, ties to even; then below the smallest normal 0; no overflow here."""
    if value == 0:
        return value
    rounded = without_limits(FP32, abs(value), Rounding.NEAREST_EVEN)
    rounded = rounded if value > 0 else -rounded
    return rounded if abs(rounded) >= TINY else Fraction(0)


@pytest.mark.parametrize("make", [moderate_bf16, tiny_bf16])
def test_tdpbf16ps_step_by_step_in_fractions(make):
    rng = np.random.default_rng(2)
    rows, columns, pairs = 3, 4, 16
    a, b = make((rows, 2 * pairs), rng), make((2 * pairs, columns), rng)
    scale = 1.0 if make is moderate_bf16 else 2.0**-124
    c = encode(FP32, rng.normal(0, 1, (rows, columns)) * scale)
    got = decode(FP32, tdpbf16ps(c, a, interleave(b, 2)))
    x, y, z = decode(BF16, a), decode(BF16, b), decode(FP32, c)
    for m in range(rows):
        for n in range(columns):
            sums = [Fraction(0), Fraction(0)]
            for k in range(2 * pairs):
                product = Fraction(x[m, k]) * Fraction(y[k, n])
                sums[k % 2] = to_fp32(product + sums[k % 2])
            expected = to_fp32(to_fp32(Fraction(z[m, n])) + to_fp32(sums[0] + sums[1]))
            assert Fraction(got[m, n]) == expected


def test_tdpbf16ps_near_the_smallest_normal_in_fractions():
    """Running sums near 2^-126 and products below 2^-149, in many orders."""
    for c, a, b in zip(*(x.reshape(len(x), 16, -1) for x in tiles_in_window()), strict=True):
        got = decode(FP32, tdpbf16ps(c, a, b))
        x, y, z = decode(BF16, a), decode(BF16, b), decode(FP32, c)
        for m, n in np.ndindex(16, 16):
            sums = [Fraction(0), Fraction(0)]
            for k in np.flatnonzero(x[m] * 2.0**126):
                product = Fraction(x[m, k]) * Fraction(y[k // 2, 2 * n + k % 2])
                sums[k % 2] = to_fp32(product + sums[k % 2])
            expected = to_fp32(Fraction(z[m, n]) + to_fp32(sums[0] + sums[1]))
            assert Fraction(got[m, n]) == expected


def test_tdpbssd_is_exact_and_wraps():
    rng = np.random.default_rng(0)
    a, b = rng.integers(-128, 128, (5, 64)), rng.integers(-128, 128, (64, 7))
    c = rng.integers(-(1 << 31), 1 << 31, (5, 7))
    c[0] = (1 << 31) - 1
    a[0], b[:, 0] = -128, -128
    got = tdpbssd(c, a.astype(np.int8), interleave(b, 4).astype(np.int8))
    exact = c + a @ b
    assert np.array_equal(got, (exact + (1 << 31)) % (1 << 32) - (1 << 31))
    assert (exact != got).any()


def test_leading_axes_are_independent_tiles():
    rng = np.random.default_rng(1)
    a, b = random_bf16((3, 16, 32), rng), random_bf16((16, 32), rng)
    c = rng.integers(0, 1 << 32, (3, 16, 16), np.uint32)
    got = tdpbf16ps(c, a, b)
    for k in range(3):
        assert np.array_equal(got[k], tdpbf16ps(c[k], a[k], b))


def test_interleave():
    matrix = np.arange(8).reshape(4, 2)
    assert interleave(matrix, 2).tolist() == [[0, 2, 1, 3], [4, 6, 5, 7]]
    assert interleave(matrix, 4).tolist() == [[0, 2, 4, 6, 1, 3, 5, 7]]
    with pytest.raises(ValueError, match=r"^depth 4 is no multiple of 3$"):
        interleave(matrix, 3)


def test_refusals():
    c, a, b = np.zeros((2, 3), int), np.zeros((2, 8), int), np.zeros((4, 6), int)
    with pytest.raises(ValueError, match=r"^tiles \(2, 3\), \(2, 8\) and \(4, 4\) do not multiply"):
        tdpbf16ps(c, a, b[:, :4])
    with pytest.raises(ValueError, match=r"^tiles \(2, 3\), \(2, 6\) and \(4, 6\) do not multiply"):
        tdpbf16ps(c, a[:, :6], b)
    with pytest.raises(ValueError, match=r"^a depth of 34 does not fit a row of 64 bytes$"):
        tdpbf16ps(c, np.zeros((2, 34), int), np.zeros((17, 6), int))
    with pytest.raises(ValueError, match=r"^a depth of 68 does not fit a row of 64 bytes$"):
        tdpbssd(c, np.zeros((2, 68), int), np.zeros((17, 12), int))


# --- the real thing


@pytest.fixture(scope="module")
def amx(tmp_path_factory):
    reason = why_not()
    if reason:
        pytest.skip(reason)
    return Amx(tmp_path_factory.mktemp("amx"))


def canonical(bits):
    """Every NaN as the one NaN that golden gives."""
    return np.where((bits & 0x7FFFFFFF) > 0x7F800000, 0x7FC00000, bits)


def compare_with_silicon(amx, tiles, seed):
    rng = np.random.default_rng(seed)
    shapes = (tiles, 16, 32), (tiles, 16, 32)
    for make in (random_bf16, moderate_bf16, tiny_bf16):
        a, b = (make(shape, rng) for shape in shapes)
        c = encode(FP32, rng.normal(0, 1, (tiles, 16, 16)) * 2.0 ** rng.integers(-126, 9))
        assert np.array_equal(canonical(amx.tdpbf16ps(c, a, b)), tdpbf16ps(c, a, b)), make.__name__
    c, a, b = (x.reshape(len(x), 16, -1) for x in tiles_in_window())
    assert np.array_equal(canonical(amx.tdpbf16ps(c, a, b)), tdpbf16ps(c, a, b))
    # Corner operands, one product each: every other depth is zero.
    left, right, start = operands([BF16, BF16, FP32], rng, tiles * 256)
    a, b = np.zeros(shapes[0], np.uint16), np.zeros(shapes[1], np.uint16)
    a[:, :, 0] = left.reshape(tiles, 16, 16)[:, :, 0]
    b[:, 0, ::2] = right.reshape(tiles, 16, 16)[:, 0]
    c = start.reshape(tiles, 16, 16)
    assert np.array_equal(canonical(amx.tdpbf16ps(c, a, b)), tdpbf16ps(c, a, b))
    a, b = (rng.integers(-128, 128, (tiles, 16, 64), np.int8) for _ in "ab")
    c = rng.integers(-(1 << 31), 1 << 31, (tiles, 16, 16), np.int32)
    assert np.array_equal(amx.tdpbssd(c, a, b), tdpbssd(c, a, b))


def test_silicon_agrees(amx):
    compare_with_silicon(amx, 30, seed=1)


@pytest.mark.full
def test_silicon_agrees_on_many_tiles(amx):
    for seed in range(10):
        compare_with_silicon(amx, 100, seed)
