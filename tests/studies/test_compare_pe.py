"""What survives a change of technology, worked out from comparisons made by hand."""

import pytest

from tilewright.golden.params.resolve import resolve
from tilewright.report.page import Context
from tilewright.report.pages import pes
from tilewright.studies.pe import compare as pe_compare
from tilewright.studies.pe.compare import Claim, Comparison, Element, Survival
from tilewright.studies.pe.energy import ELEMENTS
from tilewright.studies.pe.workload import pe_bench
from tilewright.synth.record import RECORDS
from tilewright.synth.technology import TECHNOLOGIES, load_technology


def element(name, area, energy):
    return Element(name, "spec", 4.0, area, 100.0, energy, None, None)


def comparison(technology, *elements, here=1.2):
    claims = [Claim("a bound", 0.6, here - 0.7, True), Claim("a gain", 1.5, here, False)]
    return Comparison(technology, 285, list(elements), claims)


def test_a_claim_holds_on_the_papers_side():
    assert Claim("", 0.6, 0.5, True).holds and not Claim("", 0.6, 0.7, True).holds
    assert Claim("", 1.5, 1.1, False).holds and not Claim("", 1.5, 0.9, False).holds
    assert Claim("", 0.9, 0.8, False).holds and not Claim("", 0.9, 1.2, False).holds


def test_statements_that_survive():
    both = [
        comparison("seven", element("A", 1, 1), here=1.2),
        comparison("old", element("A", 1, 1), here=1.4),
    ]
    found = pe_compare.surviving_claims(both)
    assert found == [
        Survival("a bound", {"seven": True, "old": False}),
        Survival("a gain", {"seven": True, "old": True}),
    ]
    assert [s.outcome for s in found] == ["changes", "survives"]
    assert Survival("", {"seven": False, "old": False}).outcome == "holds in none"


def test_orders_that_survive():
    both = [
        comparison("seven", element("A", 1, 5), element("B", 2, 4), element("C", 3, 3)),
        comparison("old", element("A", 1, 5), element("B", 4, 4), element("C", 3, 6)),
    ]
    area = {s.statement: s.outcome for s in pe_compare.surviving_orders(both, "area_efficiency")}
    assert area == {
        "A better than B": "survives",
        "A better than C": "survives",
        "B better than C": "changes",
    }
    energy = pe_compare.surviving_orders(both, "energy_efficiency")
    assert [s.outcome for s in energy] == ["holds in none", "changes", "changes"]


def test_every_element_that_is_asked_for_is_compared():
    """Every mantissa length of Anda, every mode of Harmonia, FIGNA's variants, DECA's lanes."""
    assert pe_bench(resolve("anda_apu")).variants == tuple(f"m{bits}" for bits in range(1, 17))
    assert pe_bench(resolve("harmonia_pe")).variants == ("m8w4", "m8m4", "m8m8")
    names = ("FP-FP", "FP-INT", "iFPU", "FIGNA", "FIGNA-M11", "FIGNA-M8", "FIGNA-C", "DECA lane")
    assert {*names, "Anda", "Harmonia"} <= set(ELEMENTS)


def test_decompression_is_of_the_whole_of_deca():
    """Dense 4-bit codes: every lane gives a weight a cycle in the paper's design."""
    found = pe_compare._decompression("deca:paper", load_technology("asap7"))
    assert found.weights_per_cycle == found.lanes == resolve("deca:paper").lanes
    assert found.area_per_weight == pytest.approx(found.area / 32)
    assert pe_compare._decompression("deca:small", load_technology("asap7")) is None


def test_page_shows_the_comparison_and_what_survives():
    context = Context(records=RECORDS, cases=1)
    context.__dict__["stale"] = {}  # a question of its own, and a long one
    built = pes.build(context)
    for shown in ("Side by side", "Beside the papers", "What survives the change of node"):
        assert f"<h2>{shown}</h2>" in built.body
    assert built.body.count("<svg") == 2
    assert set(built.data["comparison"]) == set(TECHNOLOGIES)
    for shown in (">DECA lane<", ">FIGNA-C<", ">Anda m1<", ">Harmonia m8m8<", "per lane"):
        assert shown in built.body


def test_page_without_records_says_how_to_make_them(monkeypatch):
    monkeypatch.setattr(pe_compare, "load_energy", lambda *_: None)
    context = Context(records=RECORDS, cases=1)
    context.__dict__["stale"] = {}
    body = pes.build(context).body
    assert "tilewright compare pe --update-records --element pe_fp_fp:discrete" in body
