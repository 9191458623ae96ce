"""Factors between technology nodes."""

import pytest

from tilewright.synth.system import area_factor


def test_area_between_nodes():
    assert area_factor(16, 7) == pytest.approx(0.0092 / 0.03)
    assert area_factor(16, 7) * area_factor(7, 16) == pytest.approx(1)
    assert area_factor(32, 20) < area_factor(32, 28) < 1


def test_unknown_node():
    with pytest.raises(ValueError, match=r"^no scaling for 45 nm; nodes: 7, 16, 20, 28, 32, 130$"):
        area_factor(45, 7)
