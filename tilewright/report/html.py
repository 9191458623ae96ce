"""The pieces of HTML that the pages are made of; a page contains everything it needs."""

from collections.abc import Iterable, Sequence
from html import escape
from typing import TypeGuard

__all__ = [
    "Markup",
    "code",
    "document",
    "element",
    "figure",
    "join",
    "link",
    "note",
    "number",
    "paragraph",
    "section",
    "table",
    "verdict",
]

COLOURS = """\
:root { color-scheme: light dark; --paper: #fdfdfb; --ink: #1d1f21; --faint: #666a70;
  --line: #d9dad5; --shade: #f1f1ec; --link: #0b57a4; --good: #1a7f37; --bad: #b3261e;
  --series-0: #0b6bb3; --series-1: #c4511d; --series-2: #2c7d4a; --series-3: #8a4fa8;
  --series-4: #a67c00; --series-5: #a8325e; --series-6: #1d7f86; --series-7: #6b6157; }
@media (prefers-color-scheme: dark) { :root { --paper: #16181a; --ink: #e4e5e2; --faint: #9ba0a6;
  --line: #3a3e42; --shade: #202326; --link: #7cb7f2; --good: #56c271; --bad: #ff8a80;
  --series-0: #6fb5f0; --series-1: #f2955f; --series-2: #6fca8d; --series-3: #c99be6;
  --series-4: #dcb54a; --series-5: #ee7fa5; --series-6: #5cc6cc; --series-7: #b5a897; } }
"""

DIAGRAMS = """\
.diagram text { font: 13px system-ui, sans-serif; fill: currentColor; text-anchor: middle; }
.diagram .small { font-size: 11px; fill: var(--faint); }
.diagram .title { text-anchor: start; font-weight: 600; }
.diagram .box { fill: var(--shade); stroke: var(--faint); }
.diagram .memory { fill: var(--paper); stroke: var(--series-0); stroke-width: 1.6; }
.diagram .outside { fill: none; stroke: var(--faint); stroke-dasharray: 4 3; }
.diagram .frame { fill: var(--paper); stroke: var(--line); }
.diagram .arrow { fill: none; stroke: var(--faint); }
.diagram .head { fill: var(--faint); }
"""

_PAGE = """\
* { box-sizing: border-box; }
html { font: 16px/1.5 system-ui, sans-serif; background: var(--paper); color: var(--ink);
  -webkit-text-size-adjust: 100%; }
body { max-width: 68rem; margin: 0 auto; padding: 0 1rem 4rem; }
a { color: var(--link); }
nav { display: flex; flex-wrap: wrap; gap: .25rem 1.25rem; padding: .9rem 0;
  border-bottom: 1px solid var(--line); }
nav a { text-decoration: none; }
nav a[aria-current] { color: var(--ink); font-weight: 600; }
h1 { font-size: 1.7rem; line-height: 1.2; margin: 1.6rem 0 .4rem; }
h2 { font-size: 1.2rem; margin: 2.2rem 0 .4rem; }
p, ul, ol, pre { margin: .6rem 0; }
p, li { max-width: 46rem; overflow-wrap: anywhere; }
.source, figcaption, footer { color: var(--faint); font-size: .85rem; }
footer { margin-top: 3rem; border-top: 1px solid var(--line); padding-top: .8rem; }
.wide { overflow-x: auto; margin: .8rem 0; }
table { border-collapse: collapse; font-size: .9rem; font-variant-numeric: tabular-nums; }
th, td { padding: .3rem .75rem .3rem 0; text-align: left; vertical-align: top;
  border-bottom: 1px solid var(--line); white-space: nowrap; }
td.phrase { white-space: normal; min-width: 9rem; }
td.words { white-space: normal; min-width: 18rem; }
th { font-weight: 600; border-bottom-width: 2px; vertical-align: bottom; white-space: normal; }
main > table { margin: .8rem 0; }
main > table td { white-space: normal; }
td.number, th.number { text-align: right; }
td:first-child, th:first-child { position: sticky; left: 0; background: var(--paper); }
code, pre { font-family: ui-monospace, "DejaVu Sans Mono", monospace; font-size: .88em; }
pre { background: var(--shade); padding: .8rem; overflow-x: auto; }
figure { margin: 1rem 0; }
figure svg { display: block; width: 100%; min-width: 34rem; max-width: 60rem; height: auto; }
svg * { stroke-linejoin: round; stroke-linecap: butt; }
svg text { font-family: system-ui, sans-serif; }
.good { color: var(--good); } .bad { color: var(--bad); font-weight: 600; }
.cards { display: grid; grid-template-columns: repeat(auto-fill, minmax(17rem, 1fr)); gap: 1rem;
  padding: 0; list-style: none; }
.cards li { background: var(--shade); padding: .8rem 1rem; border-radius: .4rem; }
.cards p { margin: .2rem 0 0; color: var(--faint); font-size: .9rem; }
"""

STYLE = f"\n{COLOURS}{_PAGE}{DIAGRAMS}"

# Cells of more letters than these may be broken into lines, of some width or of more.
PHRASE, WORDS = 24, 48


class Markup(str):
    """Text that is HTML already; every other value is escaped when it becomes part of a page."""

    __slots__ = ()


def text(value: object) -> Markup:
    """Return ``value`` as HTML, escaped if it is not yet."""
    return value if isinstance(value, Markup) else Markup(escape(str(value)))


def element(tag: str, content: object, **attributes: str) -> Markup:
    """Return ``<tag attributes>content</tag>``; ``class_`` is the attribute ``class``."""
    names = {name: name.rstrip("_").replace("_", "-") for name in attributes}
    extra = "".join(f' {names[k]}="{escape(value)}"' for k, value in attributes.items())
    return Markup(f"<{tag}{extra}>{text(content)}</{tag}>")


def join(parts: Iterable[object]) -> Markup:
    """Put parts of a page below each other."""
    return Markup("\n".join(text(part) for part in parts))


def paragraph(*parts: object) -> Markup:
    """Return a paragraph of ``parts`` with spaces between them."""
    return element("p", Markup(" ".join(text(part) for part in parts)))


def note(*parts: object) -> Markup:
    """Return a paragraph in small print, which says where numbers come from."""
    return element("p", Markup(" ".join(text(part) for part in parts)), class_="source")


def section(title: str, *parts: object) -> Markup:
    """Return a section of a page under its heading."""
    return element("section", join([element("h2", title), *parts]))


def verdict(good: bool, words: str) -> Markup:
    """Return ``words`` in the colour of what is good or bad."""
    return element("span", words, class_="good" if good else "bad")


def code(words: object) -> Markup:
    """Return ``words`` as code."""
    return element("code", words)


def link(address: str, words: object) -> Markup:
    """Return a link to ``address``."""
    return element("a", words, href=address)


def number(value: float) -> str:
    """Write four significant digits, or all digits of a whole number, in groups of thousands."""
    if isinstance(value, int) or 1000 <= abs(value) < 1e9:
        return f"{value:,.0f}"
    return f"{value + 0.0:.4g}"  # a negative zero is 0 to a reader


def table(header: Sequence[object], rows: Iterable[Sequence[object]]) -> Markup:
    """Return a table; columns of numbers are aligned to the right, and None is a dash."""
    rows = [list(row) for row in rows]
    numeric = [
        any(_is_number(row[k]) for row in rows)
        and all(row[k] is None or _is_number(row[k]) for row in rows)
        for k in range(len(header))
    ]
    head = element("thead", _row("th", header, numeric))
    body = element("tbody", join(_row("td", row, numeric) for row in rows))
    return element("div", element("table", join([head, body])), class_="wide")


def _is_number(value: object) -> TypeGuard[int | float]:
    return isinstance(value, int | float) and not isinstance(value, bool)


def _row(tag: str, cells: Sequence[object], numeric: Sequence[bool]) -> Markup:
    made = []
    for cell, right in zip(cells, numeric, strict=True):
        shown = "\N{EN DASH}" if cell is None else number(cell) if _is_number(cell) else cell
        kind = "number" if right else _length(cell) if tag == "td" else ""
        made.append(element(tag, shown, class_=kind) if kind else element(tag, shown))
    return element("tr", Markup("".join(made)))


def _length(cell: object) -> str:
    """The class of a cell of text, which depends on its length."""
    if isinstance(cell, Markup) or not isinstance(cell, str):
        return ""
    return "words" if len(cell) > WORDS else "phrase" if len(cell) > PHRASE else ""


def figure(svg: Markup, caption: object) -> Markup:
    """Return a drawing with its caption; where it would be too small to read, it scrolls."""
    scrolling = element("div", svg, class_="wide")
    return element("figure", join([scrolling, element("figcaption", caption)]))


def document(title: str, body: object, navigation: Iterable[tuple[str, str]], current: str) -> str:
    """Return a whole page; ``navigation`` has (address, words), ``current`` is its own address."""
    items = [
        element("a", words, href=address, aria_current="page")
        if address == current
        else element("a", words, href=address)
        for address, words in navigation
    ]
    return f"""<!DOCTYPE html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<title>{text(title)}</title>
<style>{STYLE}</style>
</head>
<body>
<nav>{join(items)}</nav>
<main>
{text(body)}
</main>
</body>
</html>
"""
