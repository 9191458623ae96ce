"""Factors between technology nodes."""

import pytest

from tilewright.synth.scaling import NODES, area_factor, energy_factor


def test_there_and_back():
    assert area_factor(16, 7) == pytest.approx(0.0092 / 0.03)
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
