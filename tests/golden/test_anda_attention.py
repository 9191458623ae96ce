"""Sums of Anda's attention instructions, against the vector unit's."""

import numpy as np
import pytest

from tilewright.golden.machine.fast_vector import dots, weighed
from tilewright.golden.machine.vector import reduce_rows
from tilewright.golden.params.formats import FP16
from tilewright.golden.params.vector import Operation
from tilewright.golden.vectors import operands


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
