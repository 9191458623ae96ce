"""Fitted figures, each predicted by a fit without it."""

import json
from statistics import fmean

import pytest

from tests.docs.pages import DOCS
from tilewright.sim.calibration import constant
from tilewright.claims import Compare, find_claim
from tilewright.claims.fit import fitted_constants
from tilewright.sim.leave_one_out import RECORD, leave_one_out, left_out_record
from tilewright.claims.scoreboard import fitted_claims

ROWS = left_out_record()
# Figures that few constants are read by, so that a fit without them takes a second.
SHORT = ("deca.table2.bf8_50.rl", "deca.table2.bf16_20.rs")


def test_every_fitted_figure_is_left_out_once():
    assert sorted(row.figure for row in ROWS) == sorted(fitted_claims())


def test_the_record_is_of_the_constants_of_today():
    kept = json.loads(RECORD.read_text())["constants"]
    assert kept == {name: constant(name) for name in fitted_constants()}


def test_a_fit_without_some_of_the_figures_gives_the_record():
    wanted = [row for row in ROWS if row.figure in SHORT]
    before = {name: constant(name) for name in fitted_constants()}
    found = {row.figure: row for row in leave_one_out(only=SHORT)}
    assert {name: constant(name) for name in fitted_constants()} == before
    assert [found[row.figure] for row in wanted] == wanted
    assert all(abs(row.left_out) > abs(row.fitted) for row in wanted)


@pytest.mark.parametrize(
    ("by_distance", "text"),
    [
        (False, "deviate by {fitted:.1%} on average where they are fitted and by {left:.1%}"),
        (True, "deviate by {fitted:.2f} and {left:.2f}"),
    ],
)
def test_the_page_has_the_means(by_distance, text):
    rows = [
        row for row in ROWS if (find_claim(row.figure).compare is Compare.ABSOLUTE) == by_distance
    ]
    fitted = fmean(abs(row.fitted) for row in rows)
    left = fmean(abs(row.left_out) for row in rows)
    page = " ".join((DOCS / "model.md").read_text().split())
    worst = max(rows, key=lambda row: abs(row.left_out))
    assert f"The {len(rows)} figures" in page or f"the {len(rows)} that are compared" in page
    assert text.format(fitted=fitted, left=left) in page
    assert f"(`{worst.figure}`)" in page
