"""A table that prints itself in a terminal and draws itself in a notebook."""

from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass
from html import escape
from typing import Any

__all__ = ["Reported", "Table"]


@dataclass(frozen=True)
class Table:
    """Rows under a header; columns of numbers are aligned to the right.

    ``str(table)`` is the text that commands print: never cut or wrapped, so that pipes see all of
    it. Notebooks show the same rows as HTML.
    """

    header: Sequence[str]
    rows: Sequence[Sequence[Any]]
    title: str = ""

    @property
    def cells(self) -> list[list[str]]:
        """The text of every cell below the header."""
        return [[str(value) for value in row] for row in self.rows]

    @property
    def numeric(self) -> list[bool]:
        """Columns that hold nothing but numbers and empty cells."""
        cells = self.cells
        return [bool(cells) and all(map(_is_number, column)) for column in self._columns(cells)]

    def __str__(self) -> str:
        cells = [list(self.header), *self.cells]
        widths = [max(map(len, column)) for column in self._columns(cells)]
        lines = [self.title] if self.title else []
        for row in cells:
            padded = (
                text.rjust(width) if right else text.ljust(width)
                for text, width, right in zip(row, widths, self.numeric, strict=True)
            )
            lines.append("  ".join(padded).rstrip())
        return "\n".join(lines)

    def _repr_html_(self) -> str:
        caption = f"<caption>{escape(self.title)}</caption>" if self.title else ""
        head = "".join(f"<th>{escape(name)}</th>" for name in self.header)
        body = "".join(f"<tr>{self._html_row(row)}</tr>" for row in self.cells)
        return f"<table>{caption}<thead><tr>{head}</tr></thead><tbody>{body}</tbody></table>"

    def _html_row(self, row: Sequence[str]) -> str:
        aligned = ("right" if right else "left" for right in self.numeric)
        return "".join(
            f'<td style="text-align: {side}">{escape(text)}</td>'
            for side, text in zip(aligned, row, strict=True)
        )

    def _columns(self, cells: Sequence[Sequence[str]]) -> list[tuple[str, ...]]:
        if not cells:
            return [() for _ in self.header]
        return list(zip(*cells, strict=True))


class Reported(ABC):
    """A result whose ``report`` is a table, which notebooks show in its place."""

    @property
    @abstractmethod
    def report(self) -> Table:
        """The result for a reader."""

    def _repr_html_(self) -> str:
        return self.report._repr_html_()


def _is_number(text: str) -> bool:
    return text.replace(".", "", 1).replace("-", "", 1).replace(",", "").isdigit() or text == ""
