"""Entries of the TEPL queue: the record is what model and RTL give, as is the page."""

import pytest

from tests.docs.pages import DOCS
from tests.support.examples import table
from tilewright.studies.measured import load_measured
from tilewright.studies.runs.deca_rates import DEEP
from tilewright.studies.tepl_entries import ENTRIES, RECORD, model_cycles, unit_rtlil
from tilewright.synth.record import flow_sha256, sha256, tool_versions

FOUND = load_measured(RECORD)
ROWS = {row["entries"]: row for row in FOUND["sizes"]}


def test_the_record_has_every_size():
    assert list(ROWS) == list(ENTRIES)


@pytest.mark.parametrize("entries", ENTRIES)
def test_the_record_is_up_to_date(entries):
    """After a change: ``python -m tilewright.studies.tepl_entries``."""
    assert ROWS[entries]["model_cycles_per_tile"] == model_cycles(entries)
    assert ROWS[entries]["rtlil_sha256"] == sha256(unit_rtlil(entries))


def test_the_record_is_of_this_flow():
    assert FOUND["flow_sha256"] == flow_sha256(FOUND["technology"])
    assert FOUND["tools"] == tool_versions()


def test_fewer_entries_than_the_deep_queue_are_too_few():
    cycles = {entries: row["model_cycles_per_tile"] for entries, row in ROWS.items()}
    assert [entries for entries in ENTRIES if cycles[entries] <= 1.05 * 16] == [DEEP]


def test_the_page_has_the_figures_of_the_record():
    assert table((DOCS / "model.md").read_text(), "tepl entries") == [
        [str(n), f"{row['model_cycles_per_tile']:.2f}", f"{row['area_um2']:,.0f}"]
        for n, row in ROWS.items()
    ]
