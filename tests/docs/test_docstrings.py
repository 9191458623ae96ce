"""Docstrings are reStructuredText that the site can show: `nox -s docs` would stop at an error."""

import ast
import inspect
from pathlib import Path

import pytest
from docutils import nodes
from docutils.core import publish_doctree
from docutils.parsers.rst import roles

from tilewright.site.reference.api import ROOT, members_as_list

PACKAGES = ("golden", "hw", "sim", "synth", "kernels", "torch", "verify", "studies", "base")
ROLES = ("class", "func", "meth", "mod", "attr", "data")  # of Sphinx, here shown as they are

SILENT = {"report_level": 2, "halt_level": 5, "warning_stream": False}


def problems(text: str) -> list[str]:
    """What docutils says about a docstring."""
    for name in ROLES:
        roles.register_local_role(name, lambda *a, **_: ([nodes.literal(a[1], a[2])], []))
    shown = "\n".join(members_as_list(inspect.cleandoc(text).splitlines()))
    document = publish_doctree(shown, settings_overrides=SILENT)
    return [message.astext() for message in document.findall(nodes.system_message)]


def docstrings(path: Path) -> dict[str, str]:
    """Docstrings of a module and of everything public in it that has one, by name."""
    found = {}
    nodes_of_a_kind = (ast.Module, ast.ClassDef, ast.FunctionDef, ast.AsyncFunctionDef)
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, nodes_of_a_kind) and (text := ast.get_docstring(node, clean=False)):
            name = getattr(node, "name", "module")
            if not name.startswith("_"):
                found[f"{path.name}, line {getattr(node, 'lineno', 1)}, {name}"] = text
    return found


@pytest.mark.full
@pytest.mark.parametrize("package", PACKAGES)
def test_docstrings_can_be_shown(package):
    texts = {}
    for path in sorted((ROOT / package).rglob("*.py")):
        texts |= docstrings(path)
    assert texts
    found = {name: problems(text) for name, text in texts.items()}
    assert {name: messages for name, messages in found.items() if messages} == {}


@pytest.mark.parametrize(
    "text",
    [
        "A list:\n- a\n  - b\n- c",
        "Sense *: either.",
        "Of ``a and b.",
        "Title\n---\nText that is longer than its line.",
    ],
)
def test_planted_errors_are_found(text):
    assert problems(text) != []


def test_what_is_right_passes():
    text = """Add :class:`X` to ``y``.

    Members
    -------
    a : a port
        that goes on
    """
    assert problems(text) == []
