"""The notebooks run from top to bottom; the site shows what they give."""

import json

import matplotlib
import pytest

from tests.docs.pages import DOCS

NOTEBOOKS = sorted((DOCS / "examples").glob("*.ipynb"))


def cells(path, kind):
    return [cell for cell in json.loads(path.read_text())["cells"] if cell["cell_type"] == kind]


def run(path, monkeypatch, tmp_path):
    """Execute the code of a notebook without a kernel; the names it leaves."""
    monkeypatch.chdir(tmp_path)
    names = {"__name__": path.stem}
    with matplotlib.rc_context({"backend": "agg"}):
        for cell in cells(path, "code"):
            exec(compile("".join(cell["source"]), path.name, "exec"), names)
        names["plt"].close("all")
    return names


def test_which_pe(monkeypatch, tmp_path, capsys):
    names = run(DOCS / "examples" / "which_pe.ipynb", monkeypatch, tmp_path)
    errors, best = names["errors"], names["best"]
    assert list(errors) == sorted(errors, key=errors.get, reverse=True)
    for tolerance in (0.1, 0.01, 0.001):
        assert errors[int(best(tolerance).removeprefix("Anda m"))] <= tolerance
    assert best(0) == "FP-INT"
    assert "FIGNA-M8" in capsys.readouterr().out


def test_deca_for_my_model(monkeypatch, tmp_path, capsys):
    names = run(DOCS / "examples" / "deca_for_my_model.ipynb", monkeypatch, tmp_path)
    assert all(deca > software > names["dense"] for software, deca in names["rates"].values())
    shown = capsys.readouterr().out
    assert "mxfp4       software: vector unit  DECA: memory" in shown
    assert "mxfp4         all kept   4.25 bits per weight" in shown


@pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda path: path.stem)
def test_notebooks_are_committed_without_outputs(path):
    """What they give is made while the site is built, by the code of that day."""
    assert all(cell["outputs"] == [] for cell in cells(path, "code"))
