"""The lab's page: its data are the performance model's answers, and a browser shows them."""

import base64
import json
import re
import shlex
import shutil

import numpy as np
import pytest

from tests.docs.browser import NAMES, open_browser
from tests.docs.pages import DOCS
from tilewright import cli
from tilewright.sim.roofsurface import Surface, kernel
from tilewright.sim.scheme import resolve_weight_scheme
from tilewright.sim.serving import ask
from tilewright.sim.system import changed_server
from tilewright.sim.xeon import SYSTEMS
from tilewright.site.lab import AXES, COLUMNS, START, lab, question

SIZES = [len(values) for values in AXES.values()]


@pytest.fixture(scope="module")
def page():
    return lab()


@pytest.fixture(scope="module")
def data(page):
    (text,) = re.findall(r'<script type="application/json" id="lab-data">(.*?)</script>', page)
    return json.loads(text)


@pytest.fixture(scope="module")
def rows(data):
    flat = np.frombuffer(base64.b64decode(data["grid"]), "<f4")
    return flat.reshape(*SIZES, len(COLUMNS))


def place(point):
    return tuple(values.index(point[name]) for name, values in AXES.items())


def test_points_of_the_page_are_answers_of_the_model(data, rows):
    assert data["axes"] == {name: list(values) for name, values in AXES.items()}
    rng = np.random.default_rng(1)
    for at in zip(*(rng.integers(0, size, 20) for size in SIZES), strict=True):
        point = {name: values[k] for (name, values), k in zip(AXES.items(), at, strict=True)}
        found = ask(question(point))
        others = sum(found.ms_by_part[part] for part in ("attention", "cache", "small kernels"))
        stored = (found.memory_bytes.weights + found.memory_bytes.cache) / 1e9
        shown = found.latency_ms, found.latency_ms - others, found.joules_per_token, stored
        ms, *rest, bound = rows[at]
        assert np.allclose((ms, *rest), shown, rtol=1e-6, atol=0), point
        assert data["bounds"][int(bound)] == found.bound
        assert found.memory_bytes.capacity == data["capacity"] * 1e9


def test_engines_differ_where_the_page_starts(rows):
    software, *decas, optimal = rows[(slice(None), *place(START)[1:])][:, 0]
    assert software > 1.5 * optimal
    assert software > 1.1 * max(decas) > 1.1 * decas[2]


def test_the_page_is_small_and_rests_without_scripts(page):
    assert len(page) < 1_500_000
    assert page.count(" disabled>") == len(AXES)
    assert "<noscript>This page needs JavaScript; tilewright llm prints" in page


OTHER = {"engine": "deca-8-4", "model": "llama-3.1-8b", "format": "mxfp4", "density": "50"}
OTHER |= {"bandwidth": "1700", "context": "8192", "batch": "32"}


@pytest.mark.full
def test_a_browser_shows_the_point_of_a_link(page, tmp_path, capsys):
    if not any(map(shutil.which, NAMES)):
        pytest.skip("no Chromium here; to get it: apt-get install chromium")
    path = tmp_path / "lab.html"
    script = (DOCS / "_static" / "lab.js").read_text()
    path.write_text(f"<!DOCTYPE html><meta charset=utf-8><body>{page}<script>{script}</script>")
    with open_browser() as browser:
        link = "&".join(f"{name}={value}" for name, value in OTHER.items())
        browser.open(f"{path.as_uri()}#{link}", 1000, 800, False)
        command = browser.evaluate("document.getElementById('lab-command').textContent")
        figures = browser.evaluate("document.getElementById('lab-figures').textContent")
        moved = browser.evaluate(
            "(function () { const s = document.getElementById('lab-batch'); s.value = 4;"
            " s.dispatchEvent(new Event('input')); s.dispatchEvent(new Event('change'));"
            " return location.hash; })()"
        )
        drawn = browser.evaluate("document.querySelectorAll('.lab svg').length")
        shapes = browser.evaluate("document.querySelector('.lab-plots').innerHTML")
    assert cli.main([*shlex.split(command)[1:], "--json"]) == 0
    answer = json.loads(capsys.readouterr().out)
    assert f"{answer['tokens_per_second']:.2f} tokens/s" in figures
    assert f"{answer['latency_ms']:.2f} ms a step" in figures
    assert f"bound by {answer['bound']}" in figures
    machine = changed_server(SYSTEMS["spr-hbm"], {"bandwidth": "1700GB/s"})
    asked = question(OTHER)
    own = kernel(resolve_weight_scheme(asked.scheme), 32, asked.block)
    roof = float(Surface.of_deca(machine).fma(own.memory, own.vector, 32)) / 1e12
    assert f"{roof:.3g} TFMA/s" in figures
    assert moved.endswith("batch=16") and drawn == 3
    assert "NaN" not in shapes and "Infinity" not in shapes
