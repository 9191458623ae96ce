"""A table that prints itself in a terminal and draws itself in a notebook or on the site."""

import re
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from html import escape
from typing import Any, TypeGuard

# Cells of more letters than these may be broken into lines, of some width or of more.
PHRASE, WORDS = 24, 48

Column = str | Callable[[Any], Any]


class Styled(str):
    """Text that HTML shows in a way of its own; in a terminal it is plain."""

    __slots__ = ("html",)
    html: str

    def __new__(cls, words: object, template: str) -> "Styled":
        """``words`` in the gap of an HTML ``template``."""
        made = super().__new__(cls, words)
        made.html = template.format(escape(made))
        return made


def code(words: object) -> Styled:
    """Return ``words`` as code."""
    return Styled(words, "<code>{}</code>")


def verdict(good: bool, words: str) -> Styled:
    """Return ``words`` in the colour of a good or a bad outcome."""
    return Styled(words, f'<span class="{"good" if good else "bad"}">{{}}</span>')


def number(value: float) -> str:
    """Write four significant digits, or all digits of a whole number, in groups of thousands."""
    if isinstance(value, int) or 1000 <= abs(value) < 1e9:
        return f"{value:,.0f}"
    return f"{value + 0.0:.4g}"  # a negative zero is 0 to a reader


def cell(record: Any, column: Column) -> Any:
    """Return a column's cell of a record: a function's value, or that of a key or an attribute.

    Dots lead further, and a format may follow, as in ``metrics.delay.value:.1f``. None is what a
    record lacks.
    """
    if callable(column):
        return column(record)
    place, _, form = column.partition(":")
    for name in place.split("."):
        if isinstance(record, Mapping):
            record = record.get(name)
        elif record is not None:
            record = record[int(name)] if name.isdigit() else getattr(record, name)
    return format(record, form) if form and record is not None else record


@dataclass(frozen=True)
class Table:
    """Rows under a header; columns of numbers are aligned to the right, None is a dash.

    ``str(table)`` is the text that commands print: never cut or wrapped, so that pipes see all of
    it. Notebooks and the site show the same rows as HTML, which the site's script lets a reader
    sort, filter and download.
    """

    header: Sequence[str]
    rows: Sequence[Sequence[Any]]
    title: str = ""

    @classmethod
    def of(cls, records: Iterable[Any], columns: Mapping[str, Column], title: str = "") -> "Table":
        """A row for each record, a column for each :func:`cell` of it."""
        rows = [[cell(record, column) for column in columns.values()] for record in records]
        return cls(list(columns), rows, title)

    def column(self, name: str) -> list[Any]:
        """The cells below ``name``."""
        place = self.header.index(name)
        return [row[place] for row in self.rows]

    def __str__(self) -> str:
        cells = [[name.upper() for name in self.header], *self.texts]
        widths = [max(map(len, column)) for column in zip(*cells, strict=True)]
        lines = [self.title] if self.title else []
        for row in cells:
            padded = (
                text.rjust(width) if right else text.ljust(width)
                for text, width, right in zip(row, widths, self.right, strict=True)
            )
            lines.append("  ".join(padded).rstrip())
        return "\n".join(lines)

    @property
    def texts(self) -> list[list[str]]:
        """The cells of every row as a terminal shows them."""
        return [[_plain(value) for value in row] for row in self.rows]

    @property
    def right(self) -> list[bool]:
        """Whether each column is aligned to the right: there are numbers, and nothing else."""
        texts = self.texts
        columns = ([row[k] for row in texts] for k in range(len(self.header)))
        return [
            any(text.strip("-") for text in column) and all(map(_looks_numeric, column))
            for column in columns
        ]

    def _repr_html_(self) -> str:
        caption = f"<caption>{escape(self.title)}</caption>" if self.title else ""
        head = _html_row("th", self.header, self.right)
        body = "\n".join(_html_row("td", row, self.right) for row in self.rows)
        inside = f"{caption}<thead>{head}</thead>\n<tbody>{body}</tbody>"
        return f'<div class="wide"><table class="docutils data">{inside}</table></div>'


class Reported(ABC):
    """A result whose ``report`` is a table, which notebooks show in its place."""

    @property
    @abstractmethod
    def report(self) -> Table:
        """The result for a reader."""

    def __str__(self) -> str:
        return str(self.report)

    def _repr_html_(self) -> str:
        return self.report._repr_html_()


def _plain(cell: object) -> str:
    return "-" if cell is None else ("no", "yes")[cell] if isinstance(cell, bool) else str(cell)


def _looks_numeric(text: str) -> bool:
    return re.fullmatch(r"-?[\d,]*\.?\d*(e[+-]?\d+)?", text) is not None


def _is_number(value: object) -> TypeGuard[int | float]:
    return isinstance(value, int | float) and not isinstance(value, bool)


def _html_row(tag: str, cells: Sequence[object], numeric: Sequence[bool]) -> str:
    made = []
    for cell, right in zip(cells, numeric, strict=True):
        kind = "number" if right else _length(cell) if tag == "td" else ""
        made.append(f"<{tag}{f' class={kind!r}' if kind else ''}>{_html(cell)}</{tag}>")
    return f"<tr>{''.join(made)}</tr>"


def _html(cell: object) -> str:
    if isinstance(cell, Styled):
        return cell.html
    if cell is None:
        return "\N{EN DASH}"
    return number(cell) if _is_number(cell) else escape(_plain(cell))


def _length(cell: object) -> str:
    """The class of a cell of text, which depends on its length."""
    if isinstance(cell, Styled) or not isinstance(cell, str):
        return ""
    return "words" if len(cell) > WORDS else "phrase" if len(cell) > PHRASE else ""
