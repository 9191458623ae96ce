"""The API pages of the documentation: one page per package, one section per module.

Only a module's own definitions are shown, under their one name; re-exports of a package's
``__init__`` where they are defined. Sources are read and not imported, so that a missing optional
extra costs no page. Docstrings are read later, by Sphinx's autodoc.
"""

import ast
import re
from pathlib import Path

import tilewright

ROOT = Path(tilewright.__file__).parent

# Benches of systems read their job or task when they are imported, or run as its session.
IN_SIMULATOR = re.compile(
    r"= job\.load\w*\(|environ\['TILEWRIGHT_|verify\.(deca\.)?session import|verify import session"
)


def public_names(source: str) -> list[str]:
    """Classes and functions that a module defines for others, in the order of its source.

    ``__all__`` chooses among functions. Classes are always shown: they are what functions take and
    give back.
    """
    statements = ast.parse(source).body
    classes = [node.name for node in statements if isinstance(node, ast.ClassDef)]
    kinds = (ast.ClassDef, ast.FunctionDef, ast.AsyncFunctionDef)
    names = [node.name for node in statements if isinstance(node, kinds)]
    for node in statements:
        if isinstance(node, ast.Assign) and ast.unparse(node.targets[0]) == "__all__":
            offered = [n.value for n in ast.walk(node.value) if isinstance(n, ast.Constant)]
            names = [name for name in names if name in (*offered, *classes)]
    return [name for name in names if not name.startswith("_")]


def runs_in_simulator(source: str) -> bool:
    """Whether a module is a bench that only a simulator can import: it reads its job at once."""
    definitions = (ast.ClassDef, ast.FunctionDef, ast.AsyncFunctionDef)
    at_once = [node for node in ast.parse(source).body if not isinstance(node, definitions)]
    return any(IN_SIMULATOR.search(ast.unparse(node)) for node in at_once)


def api_pages(packages: list[str]) -> dict[str, str]:
    """The Markdown of every page by its name, which is the package's."""
    pages: dict[str, str] = {}
    for package in packages:
        folder = ROOT.joinpath(*package.split(".")[1:])
        modules = [
            f"{package}.{path.stem}"
            for path in sorted(folder.glob("*.py"))
            if path.stem[0] != "_" and not runs_in_simulator(path.read_text(encoding="utf-8"))
        ]
        parts = [f"{package}.{p.parent.name}" for p in sorted(folder.glob("*/__init__.py"))]
        pages |= {package: _page(package, modules, parts), **api_pages(parts)}
    return pages


def write_api_pages(packages: list[str], folder: Path) -> None:
    """Write the pages into ``folder``; pages of removed packages are deleted."""
    folder.mkdir(parents=True, exist_ok=True)
    pages = {folder / f"{name}.md": text for name, text in api_pages(packages).items()}
    for path in set(folder.iterdir()) - set(pages):
        path.unlink()
    for path, text in pages.items():
        if not path.exists() or path.read_text(encoding="utf-8") != text:  # else Sphinx reads anew
            path.write_text(text, encoding="utf-8")


def _page(package: str, modules: list[str], parts: list[str]) -> str:
    lines = [f"# {package}", "", *_module(package)]
    if parts:
        lines += ["```{toctree}", ":maxdepth: 1", "", *parts, "```", ""]
    for name in modules:
        lines += [f"## {name.removeprefix(f'{package}.')}", "", *_module(name)]
    return "\n".join(lines)


def _module(name: str) -> list[str]:
    """An autodoc directive for a module, in the language that docstrings are written in."""
    path = ROOT.joinpath(*name.split(".")[1:])
    source = path.with_suffix(".py")
    source = source if source.exists() else path / "__init__.py"
    names = public_names(source.read_text(encoding="utf-8"))
    members = [f"   :members: {', '.join(names)}"] if names else []
    return ["```{eval-rst}", f".. automodule:: {name}", *members, "```", ""]


def members_as_list(lines: list[str]) -> list[str]:
    """A docstring's lines with its section ``Members`` as a list that reStructuredText knows.

    The section has a line ``name : what it is`` for each port, continued by indented lines.
    """
    if "Members" not in lines:
        return lines
    start = lines.index("Members")
    section = [
        re.sub(r"^(\w.*?) : ", r"* ``\1``: ", line)
        if not line.startswith(" ")
        else "  " + line.strip()
        for line in lines[start + 2 :]
    ]
    return [*lines[:start], ".. rubric:: Members", "", *section]
