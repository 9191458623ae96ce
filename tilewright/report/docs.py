"""Docs/*.md as HTML; a link that leads nowhere is an error.

Run by ``python -m tilewright.report.docs``.
"""

import argparse
import os
import re
import sys
from itertools import pairwise
from pathlib import Path
from urllib.parse import unquote, urlsplit

from markdown_it import MarkdownIt
from markdown_it.token import Token

from tilewright.base.errors import CommandError
from tilewright.base.files import replace_directory
from tilewright.report.html import Markup, document

__all__ = ["build_docs", "main"]


def build_docs(source: Path, output: Path) -> list[str]:
    """Render every Markdown file of ``source``; the names of the pages written.

    Links to another page become links to its HTML, and links to any other file of the checkout
    keep pointing at it; pictures are copied.
    """
    pages = {path: _parse(path) for path in sorted(source.glob("*.md"))}
    if not pages:
        raise CommandError(f"no Markdown file in {source}")
    anchors = {path: _number_headings(tokens) for path, tokens in pages.items()}
    broken = [
        f"{path}: {problem}"
        for path, tokens in pages.items()
        for problem in _follow_links(path, tokens, anchors, output)
    ]
    if broken:
        raise CommandError("broken links\n" + "\n".join(broken))
    titles = {path: _title(path, tokens) for path, tokens in pages.items()}
    navigation = [
        (f"{path.stem}.html", titles[path].partition(":")[0]) for path in _index_first(pages)
    ]
    with replace_directory(output) as fresh:
        for path, tokens in pages.items():
            body = Markup(MARKDOWN.renderer.render(tokens, MARKDOWN.options, {}))
            html = document(titles[path], body, navigation, f"{path.stem}.html")
            (fresh / f"{path.stem}.html").write_text(html, encoding="utf-8")
        for picture in source.glob("*.svg"):
            (fresh / picture.name).write_bytes(picture.read_bytes())
    return [f"{path.stem}.html" for path in pages]


MARKDOWN = MarkdownIt("commonmark").enable("table")


def _parse(path: Path) -> list[Token]:
    return MARKDOWN.parse(path.read_text(encoding="utf-8"))


def _index_first(pages: dict[Path, list[Token]]) -> list[Path]:
    return sorted(pages, key=lambda path: (path.stem != "index", path.stem))


def _headings(tokens: list[Token]) -> list[tuple[Token, str]]:
    """Opening token and words of each heading."""
    return [
        (token, following.content)
        for token, following in pairwise(tokens)
        if token.type == "heading_open"
    ]


def _title(path: Path, tokens: list[Token]) -> str:
    headings = _headings(tokens)
    if not headings:
        raise CommandError(f"{path} has no heading")
    return headings[0][1]


def _number_headings(tokens: list[Token]) -> set[str]:
    """Give each heading the anchor that code hosts give it; all of them."""
    anchors = set()
    for token, words in _headings(tokens):
        anchor = re.sub(r"[^\w\- ]", "", words.lower()).replace(" ", "-")
        token.attrSet("id", anchor)
        anchors.add(anchor)
    return anchors


def _follow_links(
    path: Path, tokens: list[Token], anchors: dict[Path, set[str]], output: Path
) -> list[str]:
    """Point every relative link at where its target will be; what does not exist."""
    problems = []
    for token in (child for parent in tokens for child in parent.children or ()):
        attribute = {"link_open": "href", "image": "src"}.get(token.type)
        if attribute is None:
            continue
        address = urlsplit(str(token.attrGet(attribute)))
        if address.scheme or address.netloc:
            continue
        target = path if not address.path else path.parent / unquote(address.path)
        target = Path(os.path.normpath(target))
        if not target.exists():
            problems.append(f"{address.path} does not exist")
        elif address.fragment and target in anchors and address.fragment not in anchors[target]:
            problems.append(f"{address.path}#{address.fragment}: no such heading")
        elif target in anchors:
            fragment = f"#{address.fragment}" if address.fragment else ""
            token.attrSet(attribute, f"{target.stem}.html{fragment}")
        elif not (token.type == "image" and target.parent == path.parent):
            token.attrSet(attribute, os.path.relpath(target, output))
    return problems


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tilewright.report.docs", description=__doc__)
    parser.add_argument("--source", type=Path, default=Path("docs"), metavar="DIR")
    parser.add_argument("-o", "--output", type=Path, default=Path("out/docs"), metavar="DIR")
    args = parser.parse_args()
    try:
        names = build_docs(args.source, args.output)
    except (CommandError, OSError) as error:
        print(f"tilewright.report.docs: {error}", file=sys.stderr)
        return 1
    print(f"{args.output / 'index.html'} and {len(names)} pages")
    return 0


if __name__ == "__main__":
    sys.exit(main())
