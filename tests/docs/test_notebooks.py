"""Notebooks are committed without outputs; the site runs them and shows what they give."""

import json

from tests.docs.pages import DOCS


def test_notebooks_are_committed_without_outputs():
    for path in (DOCS / "examples").glob("*.ipynb"):
        cells = json.loads(path.read_text())["cells"]
        assert all(cell["outputs"] == [] for cell in cells if cell["cell_type"] == "code"), path
