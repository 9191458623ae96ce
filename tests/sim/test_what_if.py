"""Which of our measurements moves which claim, and what if one of them were another."""

import pytest

from tilewright.claims import find_claim
from tilewright.sim.deca_stream import Integration, tile_rate
from tilewright.sim.perturbation import with_input
from tilewright.sim.scheme import resolve_weight_scheme
from tilewright.sim.what_if import moved_by, parse, what_if
from tilewright.sim.xeon import PAPER_DECA


def moves(name):
    (found,) = moved_by([find_claim(name)])
    return found.change_percent_by_input


def test_a_netlist_moves_its_own_claims():
    assert moves("anda.pe.area_vs_figna") == {
        "anda_apu__registered_true.area": pytest.approx(10),
        "pe_figna__registered_true__stages_3__bounded_true.area": pytest.approx(100 / 1.1 - 100),
    }


def test_cycles_of_the_arrays_move_speedups():
    assert moves("anda.tradeoff.llama13b.speedup.0p1")["anda.cycles"] == pytest.approx(-9, abs=0.5)
    found = moves("harmonia.pe.area_eff.max")
    assert found["harmonia.cycles"] == pytest.approx(100 / 1.1 - 100)


def test_nothing_of_ours_moves_a_roofline():
    assert moves("deca.table2.bf8_20.rl") == {}


def test_a_slower_deca_is_slower_where_it_bounds():
    scheme = resolve_weight_scheme("bf8_5%")
    asked = {"bytes_per_cycle": 5.7, "matrix_cycles": 16, "integration": Integration()}
    before = tile_rate(PAPER_DECA, scheme, **asked).cycles
    with with_input("deca.cycles", 1.5):
        assert tile_rate(PAPER_DECA, scheme, **asked).cycles > 1.1 * before
    assert tile_rate(PAPER_DECA, scheme, **asked).cycles == before


def test_verdicts_change_with_an_input():
    found = what_if({"harmonia_pe__registered_true.area": 1.1}, ["harmonia"])
    changes = {c.claim: (c.before, c.after) for c in found}
    assert changes["harmonia.pe.area_eff.min"] == ("reproduced", "off")


@pytest.mark.parametrize(
    "text", ["deca.cycles", "deca.cycles=", "deca.cycles=+20", "=+20%", "a=x%", "a=-100%"]
)
def test_a_what_if_has_a_form(text):
    with pytest.raises(ValueError, match=r"^a what-if is INPUT=\+N% or INPUT=-N%, N below"):
        parse(text)
    assert parse("deca.cycles=-20%") == ("deca.cycles", pytest.approx(0.8))


def test_an_unknown_input_names_its_neighbours():
    with pytest.raises(ValueError, match=r"^unknown input 'harmonia\.cycle'; did you mean harm"):
        what_if({"harmonia.cycle": 1.2}, ["harmonia"])
