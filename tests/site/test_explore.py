"""The page with sliders: its grid is the model's, and a browser shows the point that is chosen."""

import json
import re
import shutil

import pytest

from tests.docs.browser import NAMES, open_browser
from tests.docs.pages import DOCS
from tilewright.sim.llm import answer
from tilewright.sim.models import resolve_model
from tilewright.sim.whole_models import measured_models
from tilewright.site.explore import AXES, COLUMNS, grid, measured, sliders


def test_the_grid_of_the_page_is_the_models():
    (text,) = re.findall(r'<script type="application/json" id="grid">(.*?)</script>', sliders())
    shown = json.loads(text)
    assert shown["axes"] == {name: list(values) for name, values in AXES.items()}
    place = 0
    for name, value in {
        "density": "20%",
        "bandwidth": "850GB/s",
        "context": 1024,
        "batch": 16,
    }.items():
        place = place * len(AXES[name]) + AXES[name].index(value)
    found = answer(
        resolve_model("llama-3.1-8b"),
        settings={"bandwidth": "850GB/s"},
        scheme="bf8_20%",
        batch=16,
    )
    row = dict(zip(COLUMNS, shown["points"][1][place], strict=True))
    assert row["tokens/s"] == round(found.tokens_per_second, 1)
    assert row["bound by"] == found.bound
    assert len(shown["points"][1]) == len(grid("deca")) == 4 * 3 * 4 * 9


def test_without_scripts_the_first_point_is_shown_and_sliders_rest():
    for c, value in enumerate(grid("deca")[0]):
        assert f'<span id="cell-1-{c}">{value}</span>' in sliders()
    assert sliders().count(" disabled>") == len(AXES)


def test_measured_models_stand_beside_what_is_predicted():
    predicted = measured().column("Predicted, ms")
    assert predicted == [
        f"{row.ours_ms:.1f} ({row.percent(row.ours_ms):+.0f}%)" for row in measured_models()
    ]


@pytest.mark.full
def test_a_browser_shows_what_is_chosen(tmp_path):
    if not any(map(shutil.which, NAMES)):
        pytest.skip("no Chromium here; to get it: apt-get install chromium")
    path = tmp_path / "explore.html"
    script = (DOCS / "_static" / "sliders.js").read_text()
    path.write_text(f"<!DOCTYPE html><body>{sliders()}<script>{script}</script>")
    with open_browser() as browser:
        browser.open(path.as_uri(), 1000, 800, False)
        move = (
            "(function () { const s = document.getElementById('axis-batch'); s.value = 4;"
            " s.dispatchEvent(new Event('input'));"
            " return document.getElementById('cell-1-1').textContent; })()"
        )
        shown = browser.evaluate(move)
    assert float(shown) == grid("deca")[4][1]
