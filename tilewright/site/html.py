"""Pieces of HTML that a cell of the documentation shows."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from html import escape
from typing import Any, TypeGuard

__all__ = ["Markup", "Table", "code", "figure", "number", "verdict"]

# Cells of more letters than these may be broken into lines, of some width or of more.
PHRASE, WORDS = 24, 48

Column = str | Callable[[Any], Any]


class Markup(str):
    """Text that is HTML already; every other value is escaped when it becomes part of a page."""

    __slots__ = ()

    def _repr_html_(self) -> str:
        return str(self)

    def __repr__(self) -> str:
        return f"Markup of {len(self)} characters"


def code(words: object) -> Markup:
    """Return ``words`` as code."""
    return Markup(f"<code>{_text(words)}</code>")


def verdict(good: bool, words: str) -> Markup:
    """Return ``words`` in the colour of a good or a bad outcome."""
    return Markup(f'<span class="{"good" if good else "bad"}">{_text(words)}</span>')


def figure(svg: str, title: str) -> Markup:
    """Return a drawing under its title; it scrolls where it would be too small to read."""
    shown = f'<figcaption>{_text(title)}</figcaption><div class="wide">{svg}</div>'
    return Markup(f'<figure class="drawing">{shown}</figure>')


def number(value: float) -> str:
    """Write four significant digits, or all digits of a whole number, in groups of thousands."""
    if isinstance(value, int) or 1000 <= abs(value) < 1e9:
        return f"{value:,.0f}"
    return f"{value + 0.0:.4g}"  # a negative zero is 0 to a reader


@dataclass(frozen=True)
class Table:
    """Rows under a header; numbers are aligned to the right, and None is a dash.

    The site's script lets a reader sort, filter and download it.
    """

    header: Sequence[str]
    rows: Sequence[Sequence[Any]]

    @classmethod
    def of(cls, records: Iterable[Any], columns: Mapping[str, Column]) -> "Table":
        """A row for each record; a column is a key, an attribute or a function of the record."""
        rows = [[_value(record, column) for column in columns.values()] for record in records]
        return cls(list(columns), rows)

    def column(self, name: str) -> list[Any]:
        """The cells below ``name``."""
        place = self.header.index(name)
        return [row[place] for row in self.rows]

    def _repr_html_(self) -> str:
        numeric = [_is_numeric([row[k] for row in self.rows]) for k in range(len(self.header))]
        head = _row("th", self.header, numeric)
        body = "\n".join(_row("td", row, numeric) for row in self.rows)
        inside = f"<thead>{head}</thead>\n<tbody>{body}</tbody>"
        return f'<div class="wide"><table class="docutils data">{inside}</table></div>'


def _value(record: Any, column: Column) -> Any:
    if callable(column):
        return column(record)
    return record.get(column) if isinstance(record, Mapping) else getattr(record, column)


def _is_numeric(cells: Sequence[object]) -> bool:
    return any(map(_is_number, cells)) and all(c is None or _is_number(c) for c in cells)


def _is_number(value: object) -> TypeGuard[int | float]:
    return isinstance(value, int | float) and not isinstance(value, bool)


def _row(tag: str, cells: Sequence[object], numeric: Sequence[bool]) -> str:
    made = []
    for cell, right in zip(cells, numeric, strict=True):
        kind = "number" if right else _length(cell) if tag == "td" else ""
        made.append(f"<{tag}{f' class={kind!r}' if kind else ''}>{_shown(cell)}</{tag}>")
    return f"<tr>{''.join(made)}</tr>"


def _shown(cell: object) -> str:
    match cell:
        case None:
            return "\N{EN DASH}"
        case bool():
            return "yes" if cell else "no"
        case int() | float():
            return number(cell)
    return _text(cell)


def _text(value: object) -> str:
    return value if isinstance(value, Markup) else escape(str(value))


def _length(cell: object) -> str:
    """The class of a cell of text, which depends on its length."""
    if isinstance(cell, Markup) or not isinstance(cell, str):
        return ""
    return "words" if len(cell) > WORDS else "phrase" if len(cell) > PHRASE else ""
