"""Pieces of HTML that a cell of the documentation shows."""

from html import escape


class Markup(str):
    """Text that is HTML already."""

    __slots__ = ()

    def _repr_html_(self) -> str:
        return str(self)

    def __repr__(self) -> str:
        return f"Markup of {len(self)} characters"


def figure(svg: str, title: str) -> Markup:
    """Return a drawing under its title; it scrolls where it would be too small to read."""
    shown = f'<figcaption>{escape(title)}</figcaption><div class="wide">{svg}</div>'
    return Markup(f'<figure class="drawing">{shown}</figure>')
