"""Designs of the user's own on the site, in the tables of ours."""

import json
from pathlib import Path

import pytest

from tests.cli.test_cli import run
from tilewright.sim.llm import answer
from tilewright.sim.models import resolve_model
from tilewright.site import own

DESIGNS = Path(__file__).parents[2] / "examples" / "own_designs"
OWN = [str(DESIGNS / name) for name in ("mx_accelerator.toml", "lut_accelerator.toml")]


@pytest.fixture
def given(monkeypatch):
    monkeypatch.setenv(own.DESIGNS, json.dumps([*OWN, f"{DESIGNS / 'lut_format.py'}:Levels"]))
    own._own.cache_clear()
    yield
    own._own.cache_clear()


def test_both_designs_are_in_every_table(given):
    names = own.pes().column("PE")
    assert names[-2:] == ["mx_pe", "lut_pe"]
    assert {"FP-FP", "Anda m7", "Harmonia m8w4"} <= set(names)
    assert own.formats().column("Format")[-1] == "levels"
    arrays = own.accelerators().column("Accelerator")
    assert arrays == ["anda", "harmonia", "fp-fp", "mx_accelerator", "lut_accelerator"]
    assert own.kernels().column("Scheme")[-1] == "levels"
    answers = own.answers()
    found = dict(zip(answers.column("System"), answers.column("ms"), strict=True))
    assert found["mx_accelerator"] == answer(resolve_model(own.MODEL), OWN[0]).latency_ms
    assert {"spr-hbm", "lut_accelerator"} <= set(found)


@pytest.mark.parametrize(
    ("name", "text", "message"),
    [
        ("mine.toml", None, "there is no file"),
        ("mine.toml", "cores = 4\n", "is no accelerator, whose file begins with kind"),
        (
            "mine.toml",
            'kind = "accelerator"\n',
            "rows, columns, group, group_cycles, clock missing",
        ),
        ("mine.json", "{}", "is not what `compare pe --json` prints"),
        ("mine.json", json.dumps({"comparisons": []}), "is not what `compare pe --json` prints"),
        (
            "mine.json",
            json.dumps({"comparisons": [{"technology": "sky130hd", "pes": []}]}),
            "is of sky130hd; compare pe with --tech asap7",
        ),
        ("mine.v", "module x; endmodule\n", "is no accelerator"),
    ],
)
def test_a_design_that_cannot_be_read_ends_the_command_at_once(
    capsys, tmp_path, name, text, message
):
    path = tmp_path / name
    if text is not None:
        path.write_text(text)
    out = tmp_path / "report"
    code, printed, error = run(capsys, "report", "-o", str(out), "--with", str(path))
    assert (code, printed) == (2, "") and message in error and error.count("\n") == 1
    assert not out.exists()


def test_roofsurface_has_accelerators_beside_kernels(capsys):
    words = ("roofsurface", "--scheme", "mxfp4", "--with", "anda", "--with", OWN[0], "--rows", "70")
    code, text, _ = run(capsys, *words, "--json")
    anda, mx = json.loads(text)["accelerators"]
    for row in (anda, mx):
        roof = row["macs_per_byte"] * row["bytes_per_second"] / 1e12
        roof = min(roof, row["peak_tera_fma_per_second"])
        assert row["roofline_tera_fma_per_second"] == pytest.approx(roof)
        assert row["tera_fma_per_second"] <= roof * (1 + 1e-9)
    assert code == 0 and (anda["system"], mx["system"]) == ("anda", "mx_accelerator")
    # 70 rows fill 128 of an array of 64, which does 64 * 64 * 8 multiply-adds a cycle.
    assert mx["tera_fma_per_second"] == pytest.approx(64 * 64 * 8 * 285e6 * 70 / 128 / 1e12)
    assert mx["bound"] == "MTX"
    _, text, _ = run(capsys, *words)
    assert "ACCELERATOR" in text and "mx_accelerator" in text


def test_accelerators_are_drawn_beside_the_regions(capsys, tmp_path):
    """A roofline each, ours and the user's, among the kernels of the server."""
    plot = tmp_path / "surface.svg"
    words = ("--with", "anda", "--with", OWN[0], "--rows", "70", "--plot", str(plot))
    code, text, _ = run(capsys, "roofsurface", *words)
    drawn = plot.read_text()
    assert code == 0 and "ACCELERATOR" in text
    for name in ("anda", "mx_accelerator", "bf8_30%", "multiply-adds per byte of weights"):
        assert f">{name}<" in drawn


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (("--with", "spr-ddr"), "spr-ddr is a server; name it with --on"),
        (("--with", "anda", "--explore"), "--with does not go with --explore"),
    ],
)
def test_what_roofsurface_refuses_beside(capsys, words, message):
    code, text, error = run(capsys, "roofsurface", *words)
    assert (code, text) == (2, "") and message in error
