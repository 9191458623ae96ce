"""Orders that survive a change of technology, from comparisons made by hand."""

import re
from dataclasses import replace

import pytest

from tilewright.golden.params.resolve import resolve
from tilewright.studies.pe import compare as pe_compare
from tilewright.studies.pe.compare import Claim, Comparison, Conclusion
from tilewright.studies.pe.energy import PES
from tilewright.studies.pe.points import SPACES, load_points, taken_points
from tilewright.synth.layout.record import LAYOUT
from tilewright.synth.record import load_kind
from tilewright.synth.technology import load_technology


def pe(name, area, energy):
    record = {
        "spec": "spec",
        "metrics": {"area": area, "delay": 100.0},
        "runs": {"real": {"macs_per_cycle": 4.0, "total": energy}},
    }
    (row,) = pe_compare._rows(name, record)
    return row


def laid_out(row, die, cells, period, energy_x):
    energy = row.energy_fj_per_mac * energy_x
    return replace(row, die_um2=die, layout_um2=cells, layout_ps=period, layout_fj_per_mac=energy)


def claim(stated, measured, upper_bound=False, name=""):
    return Claim.of(name, stated, measured, upper_bound=upper_bound)


def comparison(technology, *pes, here=1.2):
    claims = (claim(0.6, here - 0.7, True, "a bound"), claim(1.5, here, name="a gain"))
    return Comparison(technology, 285, pes, claims)


def test_a_claim_holds_on_the_papers_side():
    assert claim(0.6, 0.5, True).holds and not claim(0.6, 0.7, True).holds
    assert claim(1.5, 1.1).holds and not claim(1.5, 0.9).holds
    assert claim(0.9, 0.8).holds and not claim(0.9, 1.2).holds


def test_a_bound_that_holds_does_not_deviate():
    assert claim(0.6, 0.5, True).deviation_percent == 0
    assert claim(0.6, 0.9, True).deviation_percent == pytest.approx(50)
    assert claim(0.5, 0.6).deviation_percent == pytest.approx(20)
    assert claim(0.6, 0.5, True).shown == "< 0.60" and claim(0.6, 0.5).shown == "0.60"


def test_figures_of_a_row():
    """By hand: 4 MAC a cycle at 285 MHz are 2.28 GOPS."""
    found = pe("A", 1000.0, 50.0)
    assert found.power_uw == pytest.approx(50 * 4 * 285e6 * 1e-15 * 1e6)
    assert found.tops_per_mm2 == pytest.approx(2.28e-3 / 1e-3)
    assert found.tops_per_watt == pytest.approx(2.28e-3 / (found.power_uw * 1e-6))
    over = pe_compare._over(pe("B", 500.0, 100.0), found)
    assert (over.area_x, over.power_x) == (2, 0.5)
    assert (over.area_efficiency_x, over.energy_efficiency_x) == (0.5, 2)


def test_statements_that_survive():
    both = [
        comparison("seven", pe("A", 1, 1), here=1.2),
        comparison("old", pe("A", 1, 1), here=1.4),
    ]
    found = pe_compare.surviving_claims(both)
    assert found == (
        Conclusion("a bound", {"seven": True, "old": False}),
        Conclusion("a gain", {"seven": True, "old": True}),
    )
    assert [s.outcome for s in found] == ["changes", "survives"]
    assert Conclusion("", {"seven": False, "old": False}).outcome == "holds in none"


def test_orders_that_survive():
    both = [
        comparison("seven", pe("A", 1, 5), pe("B", 2, 4), pe("C", 3, 3)),
        comparison("old", pe("A", 1, 5), pe("B", 4, 4), pe("C", 3, 6)),
    ]
    area = {s.statement: s.outcome for s in pe_compare.surviving_orders(both, "area_efficiency")}
    assert area == {
        "A better than B": "survives",
        "A better than C": "survives",
        "B better than C": "changes",
    }
    energy = pe_compare.surviving_orders(both, "energy_efficiency")
    assert [s.outcome for s in energy] == ["holds in none", "changes", "changes"]


def test_orders_that_survive_wires():
    """Wires double the die of one PE and the energy of another; one that is not laid out is out."""
    rows = [
        laid_out(pe("A", 2, 5), 4.0, 2.2, 100.0, 1.0),
        laid_out(pe("B", 2.5, 4), 3.0, 1.5, 120.0, 1.0),
        laid_out(pe("C", 4, 3), 5.0, 2.7, 110.0, 2.0),
    ]
    both = pe_compare.with_wires(comparison("seven", *rows, pe("D", 1, 1)))
    assert [c.technology for c in both] == ["seven", "seven laid out"]
    assert [[p.name for p in c.pes] for c in both] == [["A", "B", "C"]] * 2
    assert [(p.area_um2, p.delay_ps, p.energy_fj_per_mac) for p in both[1].pes] == [
        (4.0, 100.0, 5.0),
        (3.0, 120.0, 4.0),
        (5.0, 110.0, 6.0),
    ]
    assert both[1].pes[1].power_uw == pytest.approx(4.0 * 4 * 285e-3)
    area = pe_compare.surviving_orders(both, "area_efficiency")
    assert [s.outcome for s in area] == ["changes", "survives", "survives"]
    energy = pe_compare.surviving_orders(both, "energy_efficiency")
    assert [s.outcome for s in energy] == ["holds in none", "changes", "changes"]
    assert pe_compare.with_wires(comparison("seven", rows[0], pe("D", 1, 1))) is None


def test_ranks_that_layout_changes_are_marked(monkeypatch):
    rows = [
        laid_out(pe("FP-FP", 2, 5), 4.0, 2.2, 120.0, 1.0),
        laid_out(pe("FIGNA", 3, 6), 3.0, 2.0, 110.0, 1.0),
    ]
    rows = [replace(row, spec=PES[row.name]) for row in rows]
    found = comparison("seven", *rows, replace(pe("Anda", 1, 1), spec=PES["Anda"]))
    monkeypatch.setattr(pe_compare, "compare_in", lambda technology: found)
    lines = pe_compare.orders_table([load_technology("asap7")]).splitlines()
    assert lines[0] == "| PE | asap7, area | asap7, clock | asap7, energy |"
    shown = {line.split(" | ")[0][2:]: line.split(" | ", 1)[1] for line in lines[2:]}
    assert len(shown) == len(PES) and shown["Anda"] == " |  |  |"
    assert shown["FP-FP"] == "**1 → 2** | 2 | 1 |"


def test_ranks_that_the_search_changes_are_marked():
    """In ASAP7 its points have both figures; all ranks of a column are given once."""
    lines = pe_compare.search_orders_table([load_technology("asap7")]).splitlines()
    columns = ("area", "laid out", "energy", "energy laid out")
    assert lines[0] == f"| PE | {' | '.join(f'asap7, {name}' for name in columns)} |"
    cells = {
        line.split(" | ")[0][2:]: re.findall(r"\d+", line.split(" | ")[1]) for line in lines[2:]
    }
    points, taken = {p.spec: p for p in load_points()}, taken_points()
    for k, areas in (
        (0, {n: points[s.spec(False, s.defaults(False))].area_um2 for n, s in SPACES.items()}),
        (-1, {n: taken[n, False].area_um2 for n in SPACES}),
    ):
        assert sorted(areas, key=areas.get) == sorted(cells, key=lambda name: int(cells[name][k]))


def test_energies_of_layouts_begin_where_the_comparison_is():
    """The record of a PE's layout and its energy record are of one netlist and one workload."""
    found = pe_compare.compare_in(load_technology("asap7"))
    assert {row.spec for row in found.pes if row.die_um2 is not None} == set(PES.values())
    records = {r["spec"]: r for r in load_kind(LAYOUT).values() if r["technology"] == "asap7"}
    for row in found.pes:
        if row.die_um2 is None or row.name.partition(" m")[2] not in ("", "8", "8w4"):
            continue
        before = records[row.spec]["metrics"]["energy_before"]["value"]
        assert row.energy_fj_per_mac == pytest.approx(before, rel=1e-3), row.name


def test_decompression_is_of_the_whole_of_deca():
    """Dense 4-bit codes: every lane gives a weight a cycle in the paper's design."""
    found = pe_compare._decompression("deca:paper", load_technology("asap7"))
    assert found.weights_per_cycle == found.lanes == resolve("deca:paper").lanes
    assert found.area_um2_per_weight == pytest.approx(found.area_um2 / 32)
    assert pe_compare._decompression("deca:small", load_technology("asap7")) is None
