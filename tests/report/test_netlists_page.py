"""The report's page of netlists: counts, what is missing, what is stale, what is wrong."""

import pytest

from tilewright.report.page import Context
from tilewright.report.pages import netlists
from tilewright.synth.equivalence import EQUIVALENCE_RECORD, Equivalence, Verdict, equivalence_entry
from tilewright.synth.record import record_text

RECORD = {
    "spec": "popcount:odd",
    "technology": "asap7",
    "goal": "area",
    "rtlil_sha256": "a",
    "liberty_sha256": "b",
    "netlist_sha256": "c",
}


@pytest.fixture
def folder(tmp_path):
    """Three records, each with the verdict of its name."""
    table = {}
    for verdict in netlists.GOOD:
        name = f"{verdict.name.lower()}.asap7.json"
        (tmp_path / name).write_text(record_text(RECORD))
        table[name] = equivalence_entry(RECORD, Equivalence(verdict, 6, 0, "words"))
    (tmp_path / EQUIVALENCE_RECORD.name).write_text(record_text(table))
    return tmp_path


def built(folder):
    return netlists.build(Context(records=folder, cases=1))


def change(folder, name, **fields):
    path = folder / EQUIVALENCE_RECORD.name
    table = netlists.load_equivalence(folder)
    table[name] |= fields
    path.write_text(record_text(table))


def test_counts(folder):
    page = built(folder)
    assert page.summary == (
        "2 of 3 netlists are proved equivalent to their RTL; 1 pass their bench instead."
    )
    assert not page.problems and not page.failures
    assert page.body.count(">words<") == 3


def test_what_has_no_verdict_is_a_problem(folder):
    (folder / "other.asap7.json").write_text(record_text(RECORD))
    (problem,) = built(folder).problems
    assert problem == f"1 of 4 netlists have no verdict; to get one: {netlists.COMMAND}"


def test_a_verdict_of_another_netlist_is_a_problem(folder):
    change(folder, "proved.asap7.json", netlist_sha256="d")
    page = built(folder)
    (problem,) = page.problems
    assert problem.startswith(
        "1 of 3 netlists have only the verdict of another netlist; to get one:"
    )
    assert page.summary.startswith("1 of 3 netlists are proved ")


def test_a_netlist_that_differs_is_a_failure(folder):
    change(folder, "proved.asap7.json", verdict=Verdict.DIFFERENT.value)
    assert built(folder).failures == ["proved.asap7.json: different"]
