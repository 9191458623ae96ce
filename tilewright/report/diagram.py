"""Block diagrams: boxes, frames and arrows as SVG, inside a page or as a file of their own."""

from tilewright.report.html import COLOURS, DIAGRAMS, Markup, text

__all__ = ["Diagram"]

LINE_HEIGHT = 16  # pixels between the lines of words in a box


class Diagram:
    """Drawn in the order of the calls; lengths in pixels, y downwards.

    ``kind`` of a box: ``box``, ``memory`` (storage), ``outside`` (not part of the design).
    """

    def __init__(self, name: str, words: str, width: int, height: int):
        self.name, self.words, self.size = name, words, (width, height)
        self._parts: list[str] = []

    def frame(self, x: int, y: int, width: int, height: int, copies: int = 1) -> None:
        """A box around others; ``copies`` lie behind each other."""
        for k in reversed(range(copies)):
            self._rectangle("frame", x + 7 * k, y + 7 * k, width, height)

    def title(self, x: int, y: int, words: str) -> None:
        """Words that begin at a point, for a frame."""
        self._parts.append(f'<text class="title" x="{x}" y="{y}">{text(words)}</text>')

    def box(self, x: int, y: int, width: int, height: int, *lines: str, kind: str = "box") -> None:
        """A box with lines of words in its middle, those after the first one small."""
        self._rectangle(kind, x, y, width, height)
        self.label(x + width // 2, y + height // 2, *lines)

    def label(self, x: int, y: int, *lines: str) -> None:
        """Words around a point, those after the first line small."""
        top = y - (len(lines) - 1) * LINE_HEIGHT / 2 + 4.5  # baselines lie below the middle
        for k, line in enumerate(lines):
            small = ' class="small"' if k else ""
            self._parts.append(
                f'<text{small} x="{x}" y="{top + k * LINE_HEIGHT:g}">{text(line)}</text>'
            )

    def note(self, x: int, y: int, words: str) -> None:
        """Small words around a point."""
        self._parts.append(f'<text class="small" x="{x}" y="{y}">{text(words)}</text>')

    def arrow(self, *points: tuple[int, int], both: bool = False) -> None:
        """Along the points; with ``both`` it has a head at each end."""
        path = "M" + "L".join(f"{x} {y}" for x, y in points)
        start = f' marker-start="url(#{self.name}-head)"' if both else ""
        self._parts.append(
            f'<path class="arrow" d="{path}" marker-end="url(#{self.name}-head)"{start}/>'
        )

    def _rectangle(self, kind: str, x: int, y: int, width: int, height: int) -> None:
        self._parts.append(
            f'<rect class="{kind}" x="{x}" y="{y}" width="{width}" height="{height}" rx="5"/>'
        )

    def svg(self) -> Markup:
        """For a page, whose style it needs."""
        return self._drawn("")

    def file(self) -> str:
        """Closed in itself."""
        style = f"<style>\n{COLOURS}svg {{ color: var(--ink); }}\n{DIAGRAMS}</style>"
        return self._drawn(' xmlns="http://www.w3.org/2000/svg"', style) + "\n"

    def _drawn(self, namespace: str, *first: str) -> Markup:
        width, height = self.size
        head = (
            f'<defs><marker id="{self.name}-head" viewBox="0 0 8 8" refX="7" refY="4"'
            ' markerWidth="7" markerHeight="7" orient="auto-start-reverse">'
            '<path class="head" d="M0 0 8 4 0 8z"/></marker></defs>'
        )
        opening = (
            f'<svg{namespace} class="diagram" viewBox="0 0 {width} {height}"'
            f' role="img" aria-label="{text(self.words)}">'
        )
        return Markup("\n".join([opening, *first, head, *self._parts, "</svg>"]))
