"""The page with sliders: its grid is the model's, and a browser shows the point that is chosen."""

import json
import re
import shutil

import pytest

from tests.docs.browser import NAMES, open_browser
from tilewright.report.html import document
from tilewright.report.page import Context
from tilewright.report.pages.explore import BATCHES, COLUMNS, build
from tilewright.sim.llm import answer
from tilewright.sim.models import resolve_model
from tilewright.sim.whole_models import measured_models
from tilewright.synth.record import RECORDS


@pytest.fixture(scope="module")
def page():
    return build(Context(records=RECORDS, cases=1))


def test_the_grid_of_the_page_is_the_models(page):
    (text,) = re.findall(r'<script type="application/json" id="grid">(.*?)</script>', page.body)
    grid = json.loads(text)
    sizes = [len(values) for values in grid["axes"].values()]
    # Density 20%, 850 GB/s, 1024 tokens, batch 16, with a DECA.
    chosen = [2, 1, 1, BATCHES.index(16)]
    place = 0
    for size, k in zip(sizes, chosen, strict=True):
        place = place * size + k
    found = answer(
        resolve_model("llama-3.1-8b"),
        settings={"bandwidth": "850GB/s"},
        scheme="bf8_20%",
        batch=16,
    )
    row = dict(zip(COLUMNS, grid["points"][1][place], strict=True))
    assert row["tokens/s"] == round(found.tokens_per_second, 1)
    assert row["bound by"] == found.bound
    assert len(grid["points"][1]) == sizes[0] * sizes[1] * sizes[2] * sizes[3]


def test_without_scripts_the_first_point_is_shown_and_sliders_rest(page):
    first = page.data["points"]["deca"][0]
    for c, value in enumerate(first):
        assert f'<span id="cell-1-{c}">{value}</span>' in page.body
    assert page.body.count(" disabled>") == 4


def test_measured_models_stand_beside_what_is_predicted(page):
    for row in measured_models():
        assert f"{row.measured_ms:.1f}" in page.body
        for ms in (row.ours_ms, row.roofline_ms):
            assert f"{ms:.1f} ({row.percent(ms):+.0f}%)" in page.body
    assert [row["measured_ms"] for row in page.data["measured"]] == [
        row.measured_ms for row in measured_models()
    ]


@pytest.mark.full
def test_a_browser_shows_what_is_chosen(page, tmp_path):
    if not any(map(shutil.which, NAMES)):
        pytest.skip("no Chromium here; to get it: apt-get install chromium")
    path = tmp_path / "explore.html"
    path.write_text(document("Explore", page.body, [], "explore.html"))
    with open_browser() as browser:
        browser.open(path.as_uri(), 1000, 800, False)
        move = (
            "(function () { const s = document.getElementById('axis-batch'); s.value = 4;"
            " s.dispatchEvent(new Event('input'));"
            " return document.getElementById('cell-1-1').textContent; })()"
        )
        shown = browser.evaluate(move)
    assert float(shown) == page.data["points"]["deca"][4][1]
