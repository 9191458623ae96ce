"""Our measurements, made larger by a factor."""

import pytest

from tilewright.sim.calibration import inputs_read, measured, with_input
from tilewright.sim.deca_stream import Integration, tile_rate
from tilewright.sim.scheme import resolve_weight_scheme
from tilewright.sim.xeon import PAPER_DECA


def test_a_factor_holds_inside_its_statement():
    with inputs_read() as names, with_input("a", 1.5), with_input("a", 2.0):
        assert measured("a", 10.0) == pytest.approx(30)
        assert measured("b", 10.0) == 10
    assert names == {"a", "b"} and measured("a", 10.0) == 10


def test_a_slower_deca_is_slower_where_it_bounds():
    scheme = resolve_weight_scheme("bf8_5%")
    asked = {"bytes_per_cycle": 5.7, "matrix_cycles": 16, "integration": Integration()}
    before = tile_rate(PAPER_DECA, scheme, **asked).cycles
    with with_input("deca.cycles", 1.5):
        assert tile_rate(PAPER_DECA, scheme, **asked).cycles > 1.1 * before
    assert tile_rate(PAPER_DECA, scheme, **asked).cycles == before
