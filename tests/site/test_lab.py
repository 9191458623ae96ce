"""The labs: their data are the performance model's answers, and a browser shows them."""

import base64
import json
import re
import shlex
import shutil
from dataclasses import replace

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
from tilewright.site.lab import ACCELERATORS, LABS, OTHER_PARTS, SERVERS, _answers
from tilewright.site.lab import page as page_of


@pytest.fixture(scope="module", params=[*LABS.values()], ids=[*LABS])
def lab(request):
    """With every third value of its axes; those at which its page starts, and all machines."""
    always = {*request.param.start.values(), *request.param.machines}
    axes = {
        name: tuple(value for k, value in enumerate(values) if k % 3 == 0 or value in always)
        for name, values in request.param.axes.items()
    }
    with pytest.MonkeyPatch.context() as patch:
        small = replace(request.param, axes=axes)
        patch.setitem(LABS, small.name, small)
        _answers.cache_clear()
        yield small
    _answers.cache_clear()


@pytest.fixture(scope="module")
def page(lab):
    return page_of(lab)


@pytest.fixture(scope="module")
def data(page):
    (text,) = re.findall(r'<script type="application/json">(.*?)</script>', page)
    return json.loads(text)


@pytest.fixture(scope="module")
def rows(lab, data):
    flat = np.frombuffer(base64.b64decode(data["grid"]), "<f4")
    return flat.reshape(*(len(v) for v in lab.axes.values()), len(data["columns"]))


def test_points_of_the_page_are_answers_of_the_model(lab, data, rows):
    assert data["axes"] == {name: list(values) for name, values in lab.axes.items()}
    rng = np.random.default_rng(1)
    for at in zip(*(rng.integers(0, size, 10) for size in rows.shape[:-1]), strict=True):
        point = {name: values[k] for (name, values), k in zip(lab.axes.items(), at, strict=True)}
        found = ask(lab.question(point))
        others = sum(found.ms_by_part.get(part, 0) for part in OTHER_PARTS)
        stored = (found.memory_bytes.weights + found.memory_bytes.cache) / 1e9
        shown = found.latency_ms, found.latency_ms - others, found.joules_per_token, stored
        shares = [found.utilisation[unit] for unit in lab.units]
        ms, products, joules, gigabytes, bound, *units = rows[at]
        stored_here = (ms, products, joules, gigabytes, *units)
        assert np.allclose(stored_here, (*shown, *shares), rtol=1e-6, atol=0), point
        assert data["bounds"][int(bound)] == found.bound
        assert found.memory_bytes.capacity == data["capacity"] * 1e9
        assert found.kind == ("programs" if lab.name == ACCELERATORS.name else "predicted")


def test_the_page_rests_without_scripts(lab, page):
    assert page.count(" disabled>") == len(lab.axes)
    assert "<noscript>This page needs JavaScript; tilewright llm prints" in page


OTHER = {"engine": "deca-8-4", "model": "llama-3.1-8b", "format": "mxfp4", "density": "50"}
OTHER |= {"bandwidth": "1700", "context": "8192", "batch": "32"}
LINKS = {
    "lab": OTHER,
    "accelerators": {"lab": "accelerators", "machine": "anda", "model": "llama-3.2-1b"}
    | {"bandwidth": "256", "context": "128", "batch": "4"},
}


@pytest.mark.full
def test_a_browser_shows_the_point_of_a_link(lab, tmp_path, capsys):
    if not any(map(shutil.which, NAMES)):
        pytest.skip("no Chromium here; to get it: apt-get install chromium")
    path, name = tmp_path / "lab.html", lab.name
    script = (DOCS / "_static" / "lab.js").read_text()
    both = "".join(map(page_of, LABS.values()))
    assert len(both) < 3_000_000
    path.write_text(f"<!DOCTYPE html><meta charset=utf-8><body>{both}<script>{script}</script>")
    with open_browser() as browser:
        link = "&".join(f"{name}={value}" for name, value in LINKS[name].items())
        browser.open(f"{path.as_uri()}#{link}", 1000, 800, False)
        command = browser.evaluate(f"document.getElementById('{name}-command').textContent")
        figures = browser.evaluate(f"document.getElementById('{name}-figures').textContent")
        moved = browser.evaluate(
            f"(function () {{ const s = document.getElementById('{name}-batch'); s.value = 1;"
            " s.dispatchEvent(new Event('input')); s.dispatchEvent(new Event('change'));"
            " return location.hash; })()"
        )
        drawn = browser.evaluate("document.querySelectorAll('.lab svg').length")
        shapes = browser.evaluate(f"document.querySelector('#{name} .lab-plots').innerHTML")
    assert cli.main([*shlex.split(command)[1:], "--json"]) == 0
    answer = json.loads(capsys.readouterr().out)
    assert f"{answer['tokens_per_second']:.2f} tokens/s" in figures
    assert f"{answer['latency_ms']:.2f} ms a step" in figures
    assert f"bound by {answer['bound']}" in figures
    assert drawn == 6 and "NaN" not in shapes and "Infinity" not in shapes
    assert moved.endswith("batch=2") and ("lab=accelerators" in moved) == (
        lab.name == ACCELERATORS.name
    )
    if lab.name == ACCELERATORS.name:
        assert f"loads {100 * answer['utilisation']['load']:.0f}% of the time" in figures
        return
    machine = changed_server(SYSTEMS["spr-hbm"], {"bandwidth": "1700GB/s"})
    asked = SERVERS.question(OTHER)
    own = kernel(resolve_weight_scheme(asked.scheme), 32, asked.block)
    roof = float(Surface.of_deca(machine).fma(own.memory, own.vector, 32)) / 1e12
    assert f"{roof:.3g} TFMA/s" in figures
