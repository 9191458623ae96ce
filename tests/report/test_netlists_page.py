"""The report's page of netlists: counts, what is missing, what is wrong."""

import pytest

from tilewright.base.records import updated_table
from tilewright.report.page import Context
from tilewright.report.pages import netlists
from tilewright.synth.equivalence import Equivalence, Verdict, equivalence_entry
from tilewright.synth.record import SYNTHESIS, table_path

RECORD = {"spec": "popcount:odd", "technology": "asap7", "goal": "area", "clock_gating": True}


def write(folder, name, record):
    with updated_table(table_path(SYNTHESIS, "asap7", folder)) as table:
        table[name] = record


def proved(verdict):
    return RECORD | {"proof": equivalence_entry(Equivalence(verdict, 6, 0, "words"))}


@pytest.fixture
def folder(tmp_path):
    """Three records, each with the verdict of its name."""
    for verdict in netlists.GOOD:
        write(tmp_path, f"{verdict.name.lower()}.asap7", proved(verdict))
    return tmp_path


def built(folder):
    return netlists.build(Context(records=folder, cases=1))


def test_counts(folder):
    page = built(folder)
    assert page.summary == (
        "2 of 3 netlists are proved equivalent to their RTL; 1 pass their bench instead."
    )
    assert not page.problems and not page.failures
    assert page.body.count(">words<") == 3


def test_what_has_no_verdict_is_a_problem(folder):
    write(folder, "other.asap7", RECORD)
    (problem,) = built(folder).problems
    assert problem == f"1 of 4 netlists have no verdict; to get one: {netlists.COMMAND}"


def test_a_netlist_that_differs_is_a_failure(folder):
    write(folder, "proved.asap7", proved(Verdict.DIFFERENT))
    assert built(folder).failures == ["proved.asap7: different"]
