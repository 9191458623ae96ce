"""Vector arithmetic of the executors with numpy's floats, against that of the specification."""

import numpy as np
import pytest

from tilewright.golden.machine.fast_vector import (
    FUNCTIONS,
    arithmetic,
    dots,
    largest,
    reduced,
    table,
    weighed,
)
from tilewright.golden.machine.vector import elementwise, reduce_rows, reduce_tensor
from tilewright.golden.params.formats import FP16
from tilewright.golden.params.vector import Operation
from tilewright.golden.vectors import operands


def special(rng, shape):
    """fp16 patterns with every kind of value among them."""
    values = rng.integers(0, 1 << 16, shape).astype(np.uint16)
    kinds = np.array([0, 0x8000, 0x7C00, 0xFC00, 0x7E00, 0x0001, 0x8001, 0x7BFF], np.uint16)
    return np.where(rng.random(shape) < 0.2, rng.choice(kinds, shape), values)


def by_bank(words):
    return words.swapaxes(0, 1).reshape(words.shape[1], -1)


@pytest.mark.parametrize("operation", [Operation.ADD, Operation.SUBTRACT, Operation.MULTIPLY])
def test_arithmetic(operation):
    rng = np.random.default_rng(3)
    a, b = (special(rng, (400, 8, 4)) for _ in range(2))
    with np.errstate(all="ignore"):
        assert np.array_equal(arithmetic(operation, a, b), elementwise(operation, a, b))


@pytest.mark.parametrize("finite", [False, True])
def test_reductions(finite):
    rng = np.random.default_rng(4)
    for elements in (4, 5, 63, 64):
        shape = (-(-elements // 4), 8, 4)
        a, b = (special(rng, shape) for _ in range(2))
        if finite:
            a, b = rng.standard_normal((2, *shape)).astype(np.float16).view(np.uint16)
        with np.errstate(all="ignore"):
            found = {
                Operation.LARGEST: largest(a, elements),
                Operation.SUM: reduced(a, None, elements, 0x2E66),
                Operation.DOT: reduced(a, b, elements, 0x2E66),
            }
        for operation, got in found.items():
            want = reduce_tensor(operation, by_bank(a), by_bank(b), elements, 4, 0x2E66)
            assert np.array_equal(got, want), operation


def test_functions():
    patterns = np.arange(1 << 16, dtype=np.uint16)
    for operation in FUNCTIONS:
        assert np.array_equal(table(operation), elementwise(operation, patterns))


@pytest.mark.parametrize("lanes", [1, 2, 4])
def test_sums_are_those_of_the_unit(lanes):
    """numpy's arithmetic against golden's, on all kinds of patterns."""
    rng = np.random.default_rng(4)
    results, beats, banks, elements = 5, 6, 3, 5 * lanes + (lanes + 1) // 2
    a, b = (operands((FP16,), rng, 4000)[0] for _ in range(2))
    a = a[: results * beats * banks * lanes].reshape(results, beats, banks, lanes)
    second = b[: beats * banks * lanes].reshape(beats, banks, lanes)
    active = (np.arange(beats * lanes) < elements).reshape(beats, lanes)
    weights = b[: banks * beats].reshape(banks, beats)
    with np.errstate(all="ignore"):
        got, sums = dots(a, second, elements, 0x3555), weighed(a, weights)
    flat = got.transpose(1, 0, 2).reshape(banks, -1)
    for n in range(results):
        want = reduce_rows(Operation.DOTS, a[n], second, active, 0x3555)[-1]
        assert np.array_equal(flat[:, n], want)
    assert not flat[:, results:].any()
    spread = np.broadcast_to(weights.T[..., np.newaxis], a.shape[1:])
    for n, got in enumerate(sums):
        want = reduce_rows(Operation.WEIGH, a[n], spread, np.ones((beats, lanes)), 0)[-1]
        assert np.array_equal(got, want)
