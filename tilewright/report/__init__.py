"""The report: static pages that need no network, and the JSON behind each.

A page is a module in ``tilewright/report/pages`` with ``TITLE``, ``POSITION`` (its place in the
navigation, lowest first) and ``build(context) -> Page``; nothing else has to know about it.
"""

import json
import pkgutil
from importlib import import_module
from pathlib import Path
from types import ModuleType

from tilewright import __version__
from tilewright.base.files import replace_directory
from tilewright.report import pages
from tilewright.report.html import Markup, code, document, element, join, link, note, paragraph
from tilewright.report.page import Context, Page

__all__ = ["build_report"]


def build_report(folder: str | Path, context: Context) -> dict[str, Page]:
    """Write all pages into ``folder``, replacing it as a whole, and return them by file name."""
    modules = _page_modules()
    titles = {name: module.TITLE for name, module in modules.items()}
    navigation = _navigation(Path(folder), titles)
    built = {}
    with replace_directory(folder) as fresh:
        for name in context.track("report", modules, titles.__getitem__):
            built[name] = page = modules[name].build(context)
            html = document(
                f"{titles[name]} - Tilewright",
                _whole_page(name, titles[name], page),
                navigation,
                f"{name}.html",
            )
            (fresh / f"{name}.html").write_text(html, encoding="utf-8")
            (fresh / f"{name}.json").write_text(json.dumps(page.data, indent=2) + "\n")
        index = document("Tilewright report", _index(built, titles), navigation, "index.html")
        (fresh / "index.html").write_text(index, encoding="utf-8")
    return built


def _navigation(folder: Path, titles: dict[str, str]) -> list[tuple[str, str]]:
    """Addresses and words; the documentation is among them where it was built beside the report."""
    pages = [("index.html", "Tilewright"), *((f"{name}.html", t) for name, t in titles.items())]
    beside = (folder.parent / "docs" / "index.html").is_file()
    return [*pages, ("../docs/index.html", "Documentation")] if beside else pages


def _whole_page(name: str, title: str, page: Page) -> Markup:
    data = Markup(f"All data of this page as JSON: {link(f'{name}.json', f'{name}.json')}")
    return join([element("h1", title), paragraph(page.summary), page.body, element("footer", data)])


def _page_modules() -> dict[str, ModuleType]:
    names = [found.name for found in pkgutil.iter_modules(pages.__path__)]
    modules = {name: import_module(f"{pages.__name__}.{name}") for name in names}
    return dict(sorted(modules.items(), key=lambda item: (item[1].POSITION, item[0])))


def _index(built: dict[str, Page], titles: dict[str, str]) -> Markup:
    cards = [
        element("li", join([link(f"{name}.html", titles[name]), paragraph(page.summary)]))
        for name, page in built.items()
    ]
    problems = [
        (name, line) for name, page in built.items() for line in (*page.failures, *page.problems)
    ]
    warnings = [
        element("h2", "Problems"),
        element(
            "ul",
            join(
                element("li", Markup(f"{link(f'{name}.html', titles[name])}: {element('b', line)}"))
                for name, line in problems
            ),
        ),
    ]
    return join(
        [
            element("h1", "Tilewright report"),
            paragraph(
                "Tilewright is open hardware for compressed-LLM inference: golden models, RTL,"
                " simulation and synthesis. Every number here comes from a committed record or from"
                " a run made while these pages were built, and says which."
            ),
            *(warnings if problems else []),
            element("ul", join(cards), class_="cards"),
            note(f"Tilewright {__version__}; these pages were built by", code("tilewright report")),
        ]
    )
