"""The documentation site with its results: Sphinx with MyST, built by ``tilewright report``.

Nothing is fetched while it is built and nothing while it is read: no links into other projects'
inventories, no fonts or scripts from the web, and Sphinx's own search.
"""

import re
import sys
from pathlib import Path
from types import GenericAlias, UnionType
from typing import TypeVar

from docutils.nodes import document
from numpy.typing import ArrayLike
from sphinx.addnodes import pending_xref
from sphinx.application import Sphinx
from sphinx.ext.autodoc.mock import _MockObject
from sphinx.util.typing import stringify_annotation

import tilewright
from tilewright.cli import all_commands, command_parser
from tilewright.site.reference.api import members_as_list, write_api_pages
from tilewright.site.reference.assembly import AssemblyLexer
from tilewright.site.reference.command_line import command_reference
from tilewright.site.reference.declarations import TABLES
from tilewright.studies.pe.compare import orders_table, search_orders_table
from tilewright.synth.fpga.record import FPGA, fpga_table
from tilewright.synth.layout.record import LAYOUT, layout_table
from tilewright.synth.record import load_kind
from tilewright.synth.technology import TECHNOLOGIES, load_technology

# The packages whose public classes and functions are documented.
PACKAGES = (
    *("api", "golden", "compiler", "hw", "sim", "synth", "claims"),
    *("kernels", "torch", "conform", "verify", "studies", "site", "base"),
)

project = "Tilewright"
author = "The Tilewright contributors"
copyright = "The Tilewright contributors, Apache License 2.0"
version = release = tilewright.__version__

extensions = [
    "myst_nb",  # Markdown, and notebooks that are executed while the site is built
    "sphinx.ext.autodoc",  # the API from docstrings
]
exclude_patterns = ["_build", "**.ipynb_checkpoints"]

html_theme = "furo"
html_title = f"Tilewright {release}"
html_static_path = ["_static"]
html_css_files = ["site.css"]
html_js_files = [(name, {"defer": "defer"}) for name in ("tables.js", "lab.js")]
html_copy_source = False
# Guides before modules of the API; Sphinx opens it from its own working directory.
html_search_scorer = str(Path(__file__).parent / "_static" / "search_scorer.js")

myst_enable_extensions = ["colon_fence", "deflist"]
nb_merge_streams = True
nb_execution_mode = "force"  # what a cell shows is what today's code gives
nb_execution_timeout = 600  # seconds for a cell, on a busy machine
nb_execution_raise_on_error = True
myst_heading_anchors = 4  # links such as deca.md#registers, as code hosts make them

add_module_names = False  # the section of a module has its name
autodoc_member_order = "bysource"
autodoc_default_options = {"undoc-members": True}
autodoc_mock_imports = [  # optional extras
    *("torch", "transformers", "safetensors", "gguf", "distributed"),
    *("cocotb", "cocotb_tools", "cocotbext"),
]
# A mock of an optional extra wraps nothing: it has every attribute, and following __wrapped__ to
# the innermost function would never end.
_MockObject.__sphinx_empty_attrs__ = frozenset({"__typing_subst__", "__wrapped__"})
nitpicky = True  # a reference to something of this project that does not exist is an error
nitpick_ignore_regex = [
    (r"py:.*", r"(abc|amaranth|ctypes|enum|torch)\..*"),  # base classes that others document
    (r"py:class", r"tilewright\..*\._\w+"),  # private classes in signatures
    (r"py:class", r"tilewright\.compiler\.lowering\s+\.Lowering"),  # broken over two lines
    (r"py:class", r"(?s).*Annotated\[.*"),  # a field and its limits
    (r"py:func", r"quantise\.quantise"),  # a module's short name, in the package that has it
    (r"py:class", r"Port"),  # in the docstring of ports, which every block inherits
]
toc_object_entries = False  # thousands of them would be copied into each page's navigation


def setup(app: Sphinx) -> None:
    """Add to Sphinx what only this project has."""
    app.add_lexer("asm", AssemblyLexer)
    app.add_config_value("with_api", True, "env", bool)  # else without its pages
    app.connect("builder-inited", write_generated_pages)
    app.connect("source-read", fill_in)
    app.connect("autodoc-process-docstring", rewrite_docstring)
    app.connect("autodoc-process-signature", rewrite_signature)
    app.connect("doctree-read", unlink_foreign_types)


def write_generated_pages(app: Sphinx) -> None:
    packages = [f"tilewright.{name}" for name in PACKAGES]
    if app.config.with_api:
        write_api_pages(packages, Path(app.srcdir) / "reference" / "api")
    else:
        app.config.exclude_patterns += ["reference/api/*"]


def fill_in(app: Sphinx, page: str, source: list[str]) -> None:
    """Replace every line ``<!-- generated: NAME -->`` of a page by what is made from the code."""
    pattern = r"^<!-- generated: (\w+) -->$"
    source[0] = re.sub(pattern, lambda m: GENERATED[m[1]](), source[0], flags=re.MULTILINE)


GENERATED = TABLES | {
    "commands": lambda: command_reference(command_parser(*w) for w in [(), *all_commands()]),
    "fpga": lambda: fpga_table(load_kind(FPGA).values())._repr_html_(),
    "layouts": lambda: layout_table(load_kind(LAYOUT).values())._repr_html_(),
    "layout_orders": lambda: orders_table([*map(load_technology, TECHNOLOGIES)]),
    "search_orders": lambda: search_orders_table([*map(load_technology, TECHNOLOGIES)]),
}


def rewrite_docstring(
    app: Sphinx, what: str, name: str, value: object, options: object, lines: list[str]
) -> None:
    lines[:] = members_as_list(lines)


def rewrite_signature(
    app: Sphinx, what: str, name: str, value: object, options: object, *shown: str | None
) -> tuple[str | None, ...]:
    """Show numpy's types by the names they have in the source, not by what they stand for."""
    return tuple(text and short_numpy_types(text) for text in shown)


def short_numpy_types(text: str) -> str:
    array = r"~?numpy\.ndarray\[tuple\[~?typing\.Any, \.\.\.\], ~?numpy\.dtype\[([^\[\]]+)\]\]"
    text = re.sub(array, r"NDArray[\1]", text).replace(f"[{ANY_SCALAR}]", "")
    return text.replace(ARRAY_LIKE, "ArrayLike")


ARRAY_LIKE = stringify_annotation(ArrayLike, "smart")
ANY_SCALAR = "~numpy._typing._array_like._ScalarT"


def unlink_foreign_types(app: Sphinx, doctree: document) -> None:
    """Leave what a signature names as text where there is nothing to link to.

    Types of Python and of other projects are documented elsewhere, and Sphinx would look for a name
    of ours that ends in the same letters. Type variables and aliases have no entry of their own.
    """
    for reference in list(doctree.findall(pending_xref)):
        module, _, name = str(reference.get("reftarget", "")).rpartition(".")
        is_annotation = reference.get("refdomain") == "py" and "refwarn" not in reference
        is_ours = module.startswith("tilewright.")
        value = getattr(sys.modules.get(module), name, None) if is_ours else None
        has_no_entry = isinstance(value, TypeVar | GenericAlias | UnionType)
        if has_no_entry or (is_annotation and not is_ours):
            reference.replace_self(reference.children)
