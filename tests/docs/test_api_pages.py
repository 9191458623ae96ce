"""Sphinx makes the API pages of the packages that need an optional extra, without a warning.

The whole site takes minutes (`nox -s docs`). These pages are where a stand-in for PyTorch can go
wrong: it once gave Sphinx an endless chain of decorated functions.
"""

import subprocess
import sys

import pytest

from tests.docs.pages import DOCS
from tilewright.site.reference.api import api_pages

CONFIGURATION = """
import runpy
globals().update(runpy.run_path({conf!r}))
def setup(app):
    app.connect("autodoc-process-docstring", rewrite_docstring)
    app.connect("autodoc-process-signature", rewrite_signature)
    app.connect("doctree-read", unlink_foreign_types)
html_static_path, html_css_files, nitpicky = [], [], False  # other packages' pages are not here
"""


@pytest.mark.full
def test_pages_of_packages_with_optional_extras(tmp_path):
    source, output = tmp_path / "source", tmp_path / "output"
    source.mkdir()
    (source / "conf.py").write_text(CONFIGURATION.format(conf=str(DOCS / "conf.py")))
    pages = api_pages(["tilewright.kernels", "tilewright.torch"])
    for name, text in pages.items():
        (source / f"{name}.md").write_text(text)
    contents = "\n".join(["# API", "", "```{toctree}", *pages, "```", ""])
    (source / "index.md").write_text(contents)
    command = [sys.executable, "-m", "sphinx", "-q", "-W", "--keep-going", "-b", "dummy"]
    result = subprocess.run([*command, source, output], capture_output=True, text=True, timeout=300)
    assert result.returncode == 0, result.stderr
