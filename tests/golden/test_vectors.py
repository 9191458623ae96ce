"""tilewright.golden.vectors: what the benches rely on."""

import numpy as np
import pytest

from tilewright.golden.bits import bits_dtype, decode
from tilewright.golden.params.formats import BF16, E2M1, E4M3, FLOAT_FORMATS, FP16, FP32
from tilewright.golden.vectors import corners, operands

FORMATS = list(FLOAT_FORMATS.values())


@pytest.mark.parametrize("fmt", FORMATS, ids=str)
def test_corners_hold_every_edge_with_both_signs(fmt):
    bits = corners(fmt)
    assert bits.dtype == bits_dtype(fmt) and len(set(bits.tolist())) == len(bits)
    smallest_normal, one = 1 << fmt.mantissa_bits, fmt.bias << fmt.mantissa_bits
    edges = {0, 1, smallest_normal - 1, smallest_normal, one - 1, one, one + 1}
    edges |= {fmt.max_finite_bits, fmt.infinity_bits, fmt.nan_bits} - {None}
    assert edges | {e | 1 << (fmt.bits - 1) for e in edges} <= set(bits.tolist())


@pytest.mark.parametrize("cases", [0, 1, 2, 7, 1000, 5000])
@pytest.mark.parametrize("fmts", [[BF16], [FP16, FP16], [E4M3, E2M1], [BF16, BF16, FP32]], ids=str)
def test_operands_have_the_length_asked_for(fmts, cases):
    columns = operands(fmts, np.random.default_rng(1), cases)
    assert [len(c) for c in columns] == [cases] * len(fmts)
    assert [c.dtype for c in columns] == [bits_dtype(f) for f in fmts]
    assert all((c >> f.bits == 0).all() for c, f in zip(columns, fmts, strict=True) if f.bits < 8)


def test_all_pairs_of_corners_come_when_there_is_room():
    a, b = operands([FP16, FP16], np.random.default_rng(1), 1 << 14)
    want = {(x, y) for x in corners(FP16).tolist() for y in corners(FP16).tolist()}
    assert set(zip(a.tolist()[: len(want)], b.tolist()[: len(want)], strict=True)) == want


def test_last_operand_often_cancels():
    """In a tenth of all cases and more, |a + b| is below a hundredth of |a|."""
    a, b = (decode(BF16, c) for c in operands([BF16, BF16], np.random.default_rng(2), 20_000))
    with np.errstate(invalid="ignore"):
        assert np.mean(np.abs(a + b) < np.abs(a) / 100) > 0.1


def test_addend_often_cancels_the_product():
    fmts = [FP32, FP32, FP32]
    a, b, c = map(decode, fmts, operands(fmts, np.random.default_rng(3), 20_000))
    with np.errstate(invalid="ignore"):
        close = (np.abs(a * b + c) < np.abs(a * b) / 100) & (a * b != 0)
    assert close.mean() > 0.05
