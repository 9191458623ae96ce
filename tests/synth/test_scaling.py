"""Factors between technology nodes."""

import pytest

from tilewright.synth.scaling import NODES, area_factor, energy_factor


def test_factors_of_the_source():
    assert area_factor(16, 7) == pytest.approx(0.0092 / 0.03)
    assert area_factor(130, 7) == pytest.approx(0.0092)
    # 16 nm at 0.8 V: 0.2958 * 0.64 - 0.1241 * 0.8 + 0.03024
    assert energy_factor(16, 0.8, 16, 0.8) == 1
    seven = 0.1776 * 0.49 - 0.09097 * 0.7 + 0.02447
    assert energy_factor(16, 0.8, 7, 0.7) == pytest.approx(seven / 0.120272, rel=1e-4)


def test_there_and_back():
    for a in NODES:
        for b in NODES:
            assert area_factor(a, b) * area_factor(b, a) == pytest.approx(1)
            assert energy_factor(a, 0.9, b, 0.8) * energy_factor(b, 0.8, a, 0.9) == pytest.approx(1)


def test_28_nm_lies_between_its_neighbours():
    assert area_factor(32, 20) < area_factor(32, 28) < 1
    assert energy_factor(32, 0.9, 20, 0.9) < energy_factor(32, 0.9, 28, 0.9) < 1


def test_unknown_node():
    with pytest.raises(ValueError, match=r"^no scaling for 45 nm; nodes: 7, 16, 20, 28, 32, 130$"):
        area_factor(45, 7)
