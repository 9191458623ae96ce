"""The model's constants: how they were fitted, figures left out, residuals in the documentation."""

import json
import re
from statistics import fmean

import pytest

from tests.docs.pages import DOCS
from tilewright.claims import Compare, find_claim
from tilewright.claims.scoreboard import evaluate, fitted_claims
from tilewright.sim.calibration import TABLE, changed, constant, table
from tilewright.studies.model_fit import (
    RECORD,
    Figures,
    LeftOut,
    fitted_constants,
    leave_one_out,
    residual_table,
    residuals,
)

ROWS = [
    LeftOut(**row | {"rests_on_it": tuple(row["rests_on_it"])})
    for row in json.loads(RECORD.read_text())["figures"]
]
# A figure that few constants are read by, so that a fit without it takes a second.
SHORT = ("deca.table2.bf16_20.rs",)


def test_every_fitted_figure_is_left_out_once():
    assert sorted(row.figure for row in ROWS) == sorted(fitted_claims())


def test_the_record_is_of_the_constants_of_today():
    kept = json.loads(RECORD.read_text())["constants"]
    assert kept == {name: constant(name) for name in fitted_constants()}


def test_a_fit_without_a_figure_gives_the_record():
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
    page = " ".join((DOCS / "model-accuracy.md").read_text().split())
    worst = max(rows, key=lambda row: abs(row.left_out))
    assert f"The {len(rows)} figures" in page or f"the {len(rows)} that are compared" in page
    assert text.format(fitted=fitted, left=left) in page
    assert f"(`{worst.figure}`)" in page


def test_every_constant_says_what_it_is_and_is_used():
    for name, entry in table().items():
        assert entry.unit and entry.meaning and len(entry.range) > 10, name
        assert entry.source.startswith("fitted") == bool(entry.fitted_on), name
        assert constant(name) == entry.value


def test_every_constant_is_read_and_nothing_else_is():
    """By its name in the sources, or in the file of a server."""
    folders = (TABLE.parent, TABLE.parents[1] / "claims")
    sources = "".join(path.read_text() for folder in folders for path in folder.rglob("*.py"))
    named = sources + "".join(path.read_text() for path in TABLE.parent.glob("systems/*.toml"))
    assert set(re.findall(r'constant\(\s*"(\w+)"', sources)) <= set(table())
    unread = {name for name in table() if f'"{name}"' not in named}
    # These by the width of codes: constant(f"vector_ops_{kind}").
    assert unread == {f"vector_ops_{kind}" for kind in ("16bit", "8bit", "grouped")}


def test_documented_residuals_are_ours():
    text = (DOCS / "model-accuracy.md").read_text()
    for row in residual_table(residuals(evaluate())).rows:
        assert f"| {' | '.join(str(value) for value in row)} |" in text


@pytest.mark.full
def test_constants_are_where_their_figures_put_them():
    """Half of a tenth more or less of any fitted constant fits its figures no better."""
    best = Figures().cost
    for name in fitted_constants():
        for factor in (1.05, 1 / 1.05):
            with changed(name, factor):
                assert Figures().cost > 0.98 * best, (name, factor)
