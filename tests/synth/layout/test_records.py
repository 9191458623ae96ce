"""The committed records of layouts: fresh, consistent, listed where they belong."""

from pathlib import Path

import pytest

from tilewright.base.records import updated_table
from tilewright.studies.pe.energy import PES
from tilewright.synth.layout.record import (
    LAYOUT,
    period_of,
    records_table,
    stale_layout_records,
)
from tilewright.synth.record import load_kind, table_path
from tilewright.synth.technology import TECHNOLOGIES

ALL = load_kind(LAYOUT)
PAGE = Path(__file__).parents[3] / "docs" / "physical.md"


def test_no_record_is_stale():
    assert not stale_layout_records(), "renew with `tilewright layout --update-records`"


@pytest.mark.parametrize("technology", TECHNOLOGIES)
def test_every_pe_of_the_comparison_has_one(technology):
    found = {r["spec"] for r in ALL.values() if r["technology"] == technology}
    assert set(PES.values()) <= found


@pytest.mark.parametrize("name", ALL)
def test_figures_agree(name):
    """Bounds that any layout keeps; the timing without wires is also our own."""
    value = {key: metric["value"] for key, metric in ALL[name]["metrics"].items()}
    assert value["cell_area"] < value["die_area"] and 0.4 < value["utilisation"] < 0.9
    assert value["wire_length"] > value["die_area"] ** 0.5
    if "clock_skew" in value:
        assert 0 <= value["clock_skew"] < value["clock_latency"] < period_of(ALL[name])
        assert value["hold_slack"] >= 0
    assert ALL[name]["step"] != "routed" or value["violations"] == 0
    if "energy" in value:
        assert 0.8 < value["energy"] / value["energy_before"] < 1.6


def test_the_table_has_every_record():
    lines = records_table(ALL.values()).splitlines()
    assert len(lines) == len(ALL) + 2
    assert "<!-- generated: layouts -->" in PAGE.read_text()


def test_another_flow_makes_a_record_stale(tmp_path):
    name, record = next(iter(ALL.items()))
    with updated_table(table_path(LAYOUT, record["technology"], tmp_path)) as table:
        table[name] = record | {"layout_sha256": "0"}
    (command,) = stale_layout_records(tmp_path).values()
    expected = f"tilewright layout {record['spec']} --tech {record['technology']} --to "
    assert command.startswith(expected)
