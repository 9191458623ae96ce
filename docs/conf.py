"""The documentation site: Sphinx with MyST, built by ``nox -s docs`` into out/docs.

Nothing is fetched while it is built and nothing while it is read: no links into other projects'
inventories, no fonts or scripts from the web, and Sphinx's own search.
"""

from sphinx.application import Sphinx

import tilewright
from tilewright.report.reference.assembly import AssemblyLexer

project = "Tilewright"
author = "The Tilewright contributors"
copyright = "The Tilewright contributors, Apache License 2.0"
version = release = tilewright.__version__

extensions = [
    "myst_nb",  # Markdown, and notebooks that are executed while the site is built
    "sphinx.ext.autodoc",  # the API from docstrings
    "sphinx.ext.napoleon",  # their sections Parameters, Members, Raises
]
exclude_patterns = ["_build", "**.ipynb_checkpoints"]

html_theme = "furo"
html_title = f"Tilewright {release}"
html_static_path = ["_static"]
html_css_files = ["site.css"]
html_copy_source = False

myst_enable_extensions = ["colon_fence", "deflist"]
myst_heading_anchors = 4  # links such as deca.md#registers, as code hosts make them


def setup(app: Sphinx) -> None:
    """Add to Sphinx what only this project has."""
    app.add_lexer("asm", AssemblyLexer)
