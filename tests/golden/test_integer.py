"""Integer models against Python's own integers, one element at a time."""

import numpy as np
import pytest

from tilewright.golden.integer import (
    adder_tree,
    expand,
    leading_zeros,
    max_tree,
    popcount,
    prefix_sum,
    shift,
)
from tilewright.golden.params.arith import ShiftDirection

CASES = 200


def words(rng: np.random.Generator, width: int) -> np.ndarray:
    """Words whose highest set bit lies anywhere, the extremes first."""
    ints = [int.from_bytes(rng.bytes(16), "little") % (1 << width) for _ in range(CASES)]
    ints = [w >> int(k) for w, k in zip(ints, rng.integers(0, width + 1, CASES), strict=True)]
    ints[:2] = 0, (1 << width) - 1
    return np.array(ints, dtype=np.uint64 if width <= 64 else object)


@pytest.mark.parametrize("width", [1, 11, 24, 64, 76])
def test_leading_zeros(width):
    x = words(np.random.default_rng(1), width)
    assert leading_zeros(x, width).tolist() == [width - int(w).bit_length() for w in x]


@pytest.mark.parametrize("direction", ShiftDirection)
@pytest.mark.parametrize("width", [1, 11, 64, 76])
def test_shift(width, direction):
    rng = np.random.default_rng(2)
    x = words(rng, width)
    amount = rng.integers(0, 1 << width.bit_length(), CASES)
    y, sticky = shift(x, amount, width, direction)
    for case in range(CASES):
        bits = f"{int(x[case]):0{width}b}"
        gone = min(int(amount[case]), width)
        if direction is ShiftDirection.RIGHT:
            kept, lost = "0" * gone + bits[: width - gone], bits[width - gone :]
        else:
            kept, lost = bits[gone:] + "0" * gone, bits[:gone]
        assert (y[case], sticky[case]) == (int(kept, 2), int("1" in lost))


@pytest.mark.parametrize(("bits", "signed"), [(5, True), (7, False), (64, False), (64, True)])
def test_adder_tree_is_exact(bits, signed):
    low = -(1 << (bits - 1)) if signed else 0
    dtype = np.int64 if signed else np.uint64
    high = low + (1 << bits) - 1
    terms = np.random.default_rng(3).integers(low, high, (CASES, 13), dtype, endpoint=True)
    terms[0], terms[1] = low, high
    assert adder_tree(terms).tolist() == [sum(row) for row in terms.tolist()]


def test_max_tree():
    terms = np.random.default_rng(4).integers(0, 32, (CASES, 13))
    assert max_tree(terms).tolist() == [max(row) for row in terms.tolist()]


def masks(width: int) -> np.ndarray:
    """Every mask of ``width`` bits."""
    return (np.arange(1 << width)[:, None] >> np.arange(width)) & 1


def test_popcount_and_prefix_sum_of_every_mask():
    width = 10
    index, total = prefix_sum(masks(width))
    ints = range(1 << width)
    assert popcount(masks(width)).tolist() == [w.bit_count() for w in ints]
    assert total.tolist() == [w.bit_count() for w in ints]
    assert index.tolist() == [[(w % (1 << k)).bit_count() for k in range(width)] for w in ints]


def test_expand_of_every_mask():
    width = 10
    x = np.arange(1, width + 1)  # no word is 0, so a cleared lane shows
    for mask, y in zip(
        masks(width), expand(np.tile(x, (1 << width, 1)), masks(width)), strict=True
    ):
        rest = iter(x.tolist())
        assert y.tolist() == [next(rest) if bit else 0 for bit in mask]
