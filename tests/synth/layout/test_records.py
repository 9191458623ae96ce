"""The committed records of layouts: fresh, consistent, listed where they belong."""

from pathlib import Path

import pytest

from tilewright.base.records import updated_table
from tilewright.golden.params.resolve import resolve
from tilewright.studies.pe.energy import PES
from tilewright.studies.pe.points import SPACES
from tilewright.synth.layout.record import LAYOUT, layout_table, period_of, stale_layout_records
from tilewright.synth.record import load_kind, load_records, table_path
from tilewright.synth.technology import TECHNOLOGIES

ALL = load_kind(LAYOUT)
PAGE = Path(__file__).parents[3] / "docs" / "physical.md"


def test_no_record_is_stale():
    assert not stale_layout_records(), "renew with `tilewright layout --update-records`"


@pytest.mark.parametrize("technology", TECHNOLOGIES)
def test_every_pe_of_the_comparison_has_one_in_asap7_by_default_too(technology):
    found = {resolve(r["spec"]) for r in ALL.values() if r["technology"] == technology}
    defaults = [space.spec(False, {}) for space in SPACES.values()]
    wanted = [*PES.values(), *(defaults if technology == "asap7" else [])]
    assert {*map(resolve, wanted)} <= found


@pytest.mark.parametrize("name", ALL)
def test_figures_agree(name):
    """Bounds that hold for any layout."""
    value = {key: metric["value"] for key, metric in ALL[name]["metrics"].items()}
    assert value["cell_area"] < value["die_area"] and 0.4 < value["utilisation"] < 0.9
    assert value.get("wire_length", 1e9) > value["die_area"] ** 0.5  # of a route
    if "clock_skew" in value:
        assert 0 <= value["clock_skew"] < value["clock_latency"] < period_of(ALL[name])
        assert value["hold_slack"] >= 0
    assert ALL[name]["step"] != "routed" or value["violations"] == 0
    if "energy" in value:
        assert 0.8 < value["energy"] / value["energy_before"] < 1.6


def test_timing_without_wires_is_that_of_synthesis():
    ours = load_records()
    both = [
        (ALL[name]["metrics"]["period_before"]["value"], ours[name]["metrics"]["delay"]["value"])
        for name in ALL.keys() & ours.keys()
    ]
    assert len(both) >= 2 * len(PES)
    assert max(abs(theirs / own - 1) for theirs, own in both) < 0.007
    assert "within\n  0.7%" in PAGE.read_text()


def test_the_table_has_every_record():
    rows = layout_table(ALL.values()).rows
    assert [row[:2] for row in rows] == [[r["spec"], r["technology"]] for r in ALL.values()]
    assert "<!-- generated: layouts -->" in PAGE.read_text()


def test_another_flow_makes_a_record_stale(tmp_path):
    name, record = next(iter(ALL.items()))
    with updated_table(table_path(LAYOUT, record["technology"], tmp_path)) as table:
        table[name] = record | {"layout_sha256": "0"}
    (command,) = stale_layout_records(tmp_path).values()
    expected = f"tilewright layout {record['spec']} --tech {record['technology']} --to "
    assert command.startswith(expected)
