"""The pages of the documentation as Markdown: their headings, links and tables of contents."""

import re
from collections.abc import Iterator
from itertools import pairwise
from pathlib import Path
from urllib.parse import unquote, urlsplit

from markdown_it import MarkdownIt
from markdown_it.token import Token

ROOT = Path(__file__).parents[2]
DOCS = ROOT / "docs"
GENERATED = DOCS / "reference" / "api"  # written while the site is built

MARKDOWN = MarkdownIt("commonmark").enable("table")


def pages(folder: Path) -> list[Path]:
    """Markdown pages of ``folder`` and below that somebody wrote."""
    return sorted(p for p in folder.rglob("*.md") if GENERATED not in p.parents)


def parse(path: Path) -> list[Token]:
    return MARKDOWN.parse(path.read_text(encoding="utf-8"))


def anchors(path: Path) -> set[str]:
    """The anchors that code hosts, and MyST, give to the headings of a page."""
    words = [b.content for a, b in pairwise(parse(path)) if a.type == "heading_open"]
    return {re.sub(r"[^\w\- ]", "", w.lower()).replace(" ", "-") for w in words}


def addresses(path: Path) -> Iterator[str]:
    """Targets of the links and pictures of a page."""
    for token in (child for parent in parse(path) for child in parent.children or ()):
        attribute = {"link_open": "href", "image": "src"}.get(token.type)
        if attribute is not None:
            yield str(token.attrGet(attribute))


def broken_links(path: Path) -> list[str]:
    """Targets of a page's relative links that do not exist."""
    problems = []
    for address in map(urlsplit, addresses(path)):
        if address.scheme or address.netloc:
            continue
        target = path.parent / unquote(address.path) if address.path else path
        if not target.exists():
            problems.append(f"{address.path} does not exist")
        elif (
            address.fragment and target.suffix == ".md" and address.fragment not in anchors(target)
        ):
            problems.append(f"{address.path}#{address.fragment}: no such heading")
    return problems


def contents(path: Path) -> list[Path]:
    """Pages that the tables of contents of a page name, without their suffix."""
    entries = []
    for token in parse(path):
        if token.type == "fence" and token.info.strip() == "{toctree}":
            lines = [line.strip() for line in token.content.splitlines()]
            lines = [line for line in lines if line and not line.startswith(":")]
            # "Title <page>" or "page".
            entries += [re.sub(r".*<(.*)>$", r"\1", line) for line in lines]
    return [(path.parent / entry).resolve() for entry in entries]
