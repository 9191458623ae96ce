"""Large structures are built with fewer collections, and only these."""

import gc

import pytest

from tilewright.synth.collector import THRESHOLD, rare_collections


def test_thresholds_are_as_before_afterwards():
    usual, before = gc.get_threshold(), (700, 10, 10)
    gc.set_threshold(*before)  # tests themselves collect seldom
    try:
        with pytest.raises(KeyError), rare_collections():
            assert gc.isenabled() and gc.get_threshold()[0] == THRESHOLD > before[0]
            raise KeyError
        assert gc.get_threshold() == before
    finally:
        gc.set_threshold(*usual)
