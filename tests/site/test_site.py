"""The whole site is built as `tilewright report` builds it, and read page by page."""

import ast
import json
import re
from html.parser import HTMLParser
from pathlib import Path
from urllib.parse import unquote, urlsplit

import pytest

from tests.docs.pages import DOCS
from tests.support.installed import run
from tilewright.base.errors import CheckError, CommandError
from tilewright.site import build, own

CONFIGURATION = """
extensions = ["myst_nb"]
html_theme = "furo"
nb_execution_mode = "force"
nb_execution_raise_on_error = True
"""
CELL = """---
file_format: mystnb
kernelspec: {name: python3, display_name: Python 3}
---
# A page

```{code-cell} ipython3
1 / 0
```
"""


class Page(HTMLParser):
    """References of a page, its anchors, tables and drawings."""

    def __init__(self, path: Path):
        super().__init__()
        self.path, self.ids, self.links, self.loaded = path, set(), [], []
        self.tables = self.drawings = 0
        self.feed(path.read_text(encoding="utf-8"))

    def handle_starttag(self, tag, attributes):
        values = dict(attributes)
        self.ids.add(values.get("id"))
        if tag == "a" and "href" in values:
            self.links.append(values["href"])
        self.loaded += [values[name] for name in ("src", "data") if name in values]
        if tag == "link" and "stylesheet" in (values.get("rel") or ""):
            self.loaded.append(values["href"])
        self.tables += values.get("class") == "docutils data"
        self.drawings += tag == "figure" and values.get("class") == "drawing"


def problems(folder: Path, pages: dict[Path, Page]) -> list[str]:
    """Links to nothing, and files that a page loads from elsewhere or that do not exist.

    Pages of the API are left out.
    """
    found = []
    for path, page in pages.items():
        for address in (*page.links, *page.loaded):
            parts = urlsplit(address)
            if parts.scheme == "data" or (address in page.links and parts.scheme):
                continue
            target = (path.parent / unquote(parts.path)).resolve() if parts.path else path
            name = f"{path.relative_to(folder)}: {address}"
            lacks = target in pages and parts.fragment and parts.fragment not in pages[target].ids
            is_api = "/reference/api/" in f"{target}/"
            if not is_api and (parts.scheme or not target.exists() or lacks):
                found.append(name)
    return found


def cells_of(source: Path) -> list[str]:
    """The code of a page's cells, or of a notebook's."""
    if source.suffix == ".ipynb":
        cells = json.loads(source.read_text())["cells"]
        return ["".join(cell["source"]) for cell in cells if cell["cell_type"] == "code"]
    pattern = r"^```\{code-cell\}.*\n((?:.|\n)*?)^```$"
    return re.findall(pattern, source.read_text(), re.MULTILINE)


def shown_by(cells: list[str]) -> str:
    """The HTML that cells show, each what it displays and the value of its last expression."""
    shown: list[object] = []
    names = {"display": lambda *values: shown.extend(values)}
    for cell in cells:
        *body, last = ast.parse(cell).body
        is_value = isinstance(last, ast.Expr)
        exec(compile(ast.Module(body if is_value else [*body, last], []), "cell", "exec"), names)
        if is_value:
            shown.append(eval(compile(ast.Expression(last.value), "cell", "eval"), names))
    return "".join(v._repr_html_() if hasattr(v, "_repr_html_") else "" for v in shown)


@pytest.mark.full  # `nox -s docs` is of every change
def test_the_site(tmp_path, monkeypatch):
    """No cell fails, every link leads somewhere, and cells have tables and drawings.

    Cells run here: a kernel for each page would take longer than they do. `nox -s docs` builds the
    site with its kernels and with the API.
    """
    folder = (tmp_path / "site").resolve()
    design = str(DOCS.parent / "examples/own_designs/mx_accelerator.toml")
    monkeypatch.setenv(own.DESIGNS, json.dumps([design]))
    own._own.cache_clear()
    build.build_site(folder, [design], with_api=False, with_cells=False)
    pages = {path: Page(path) for path in folder.rglob("*.html")}
    sources = [*DOCS.rglob("*.md"), *DOCS.rglob("*.ipynb")]
    with_cells = {path: cells for path in sources if (cells := cells_of(path))}
    assert len(with_cells) > 14
    for source, cells in with_cells.items():
        path = folder / source.relative_to(DOCS).with_suffix(".html")
        pages[path].feed(shown_by(cells))
        if source.suffix == ".md":  # one cell may only compute
            assert pages[path].tables + pages[path].drawings >= len(cells) - 1, source
    assert problems(folder, pages) == []
    shown = [
        pages[folder / "results" / f"{name}.html"] for name in ("index", "deca-servers", "pes")
    ]
    assert [page.drawings for page in shown] == [4, 13, 2]
    assert "mx_accelerator" in shown_by(cells_of(DOCS / "results" / "your-designs.md"))


@pytest.mark.full
def test_a_cell_that_fails_builds_no_site(tmp_path):
    source = tmp_path / "docs"
    source.mkdir()
    (source / "conf.py").write_text(CONFIGURATION)
    (source / "index.md").write_text(CELL)
    with pytest.raises(CheckError, match="Sphinx has said what failed"):
        build.build_site(tmp_path / "site", source=source)
    assert not (tmp_path / "site").exists()


def test_what_is_missing_is_named(tmp_path, monkeypatch):
    monkeypatch.setattr(build, "find_spec", lambda name: None if name == "furo" else name)
    with pytest.raises(CommandError, match=r"^the report needs furo: pip install -e '.\[docs\]'$"):
        build.build_site(tmp_path / "site")


def test_the_installed_package_says_where_to_build(installed, tmp_path):
    script = "from tilewright.cli import main; print(main(['report', '-o', 'report']))"
    said = run(
        installed / "bin" / "python",
        "-c",
        f"import sys; sys.stderr = sys.stdout; {script}",
        cwd=tmp_path,
    )
    assert said.splitlines() == [
        "tilewright: the report is made of docs/, which an installed package does not have:"
        " run this in a checkout of the project",
        "2",
    ]
    assert not (tmp_path / "report").exists()


def test_planted_problems_are_found(tmp_path):
    folder = tmp_path.resolve()
    (folder / "a.html").write_text(
        '<a href="b.html#x"></a><a href="b.html#y"></a><a href="c.html"></a>'
        '<img src="d.png"><script src="https://z.org/e.js"></script><a href="https://z.org"></a>'
    )
    (folder / "b.html").write_text('<p id="x">')
    pages = {path: Page(path) for path in folder.glob("*.html")}
    assert problems(folder, pages) == [
        *("a.html: b.html#y", "a.html: c.html", "a.html: d.png", "a.html: https://z.org/e.js")
    ]
