"""Samples of a language model for the energy of processing elements."""

import numpy as np
import pytest

from tests.support.smollm2 import smollm2_or_skip
from tilewright.studies.pe import workload as pe_tensors
from tilewright.studies.pe.workload import DOTS, LENGTH, STREAMS, samples


def floats(patterns):
    return patterns.astype(np.uint16).view(np.float16).astype(np.float64)


def test_samples_are_what_elements_take():
    found = samples()
    assert found["activation"].shape == (STREAMS, DOTS, LENGTH)
    assert np.isfinite(floats(found["activation"])).all()
    assert found["weight"].min() >= -8 and found["weight"].max() == 7
    assert (floats(found["scale"]) > 0).all()
    # Nothing is constant: no stream, no dot product, no place in one.
    for axis in range(3):
        assert (np.ptp(floats(found["activation"]), axis=axis) > 0).all()
    assert (np.ptp(found["weight"], axis=1) >= 7).all()


@pytest.mark.full
def test_samples_are_those_of_the_model():
    smollm2_or_skip()
    ours, anew = samples(), pe_tensors.sampled()
    # Up to the order of summation of this machine's BLAS, which may also turn a choice of scale.
    np.testing.assert_allclose(floats(ours["activation"]), floats(anew["activation"]), 0.02, 0.01)
    assert (ours["weight"] == anew["weight"]).mean() > 0.99
