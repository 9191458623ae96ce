"""The page of placed blocks: every record in its table, and old ones named."""

import pytest

from tilewright.report.html import number
from tilewright.report.page import Context
from tilewright.report.pages.placed import build
from tilewright.synth.place.record import PLACED
from tilewright.synth.record import RECORDS, load_kind, store_record


def test_every_record_is_shown():
    records = load_kind(PLACED)
    page = build(Context(records=RECORDS, cases=1))
    assert [r["spec"] for r in page.data["placed"]] == [r["spec"] for r in records.values()]
    for record in records.values():
        assert record["spec"] in page.body
        if "period" in record["metrics"]:  # of blocks with registers
            assert number(record["metrics"]["period"]["value"]) in page.body
    assert "Clock that holds, ps" in page.body
    assert "Not offered: gowin" in page.body
    assert "estimate before routing" in page.body
    assert "//" not in page.body  # a page of the report loads nothing, and names no address
    assert not page.failures


@pytest.mark.parametrize("change", [{"place_sha256": "0"}, {"rtlil_sha256": "0"}])
def test_an_old_record_is_a_problem(tmp_path, change):
    name, record = next(iter(load_kind(PLACED).items()))
    store_record(PLACED, record["technology"], name, record | change, tmp_path)
    page = build(Context(records=tmp_path, cases=1))
    (problem,) = page.problems
    assert problem.startswith(f"{name} is old; to renew it: tilewright place {record['spec']}")
