"""Parts of every drawing: a figure that becomes SVG in the colours and the font of the page."""

import io
import re
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from html import escape
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, NamedTuple

from tilewright.base.errors import CommandError
from tilewright.base.files import write_atomic
from tilewright.site.html import Markup, figure

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.axis import Axis
    from matplotlib.figure import Figure

# Stand-ins that nothing else draws with; `_inline` turns them into the page's own colours, so one
# drawing serves light and dark.
INK, LINE = "#010203", "#040506"
SERIES = [f"#0708{k:02x}" for k in range(8)]
_PAGE_COLOURS = {INK: "currentColor", LINE: "var(--line)"} | {
    colour: f"var(--series-{k})" for k, colour in enumerate(SERIES)
}
# The same in daylight, for files, which have no style sheet.
FILE_SERIES = (
    *("#0b6bb3", "#c4511d", "#2c7d4a", "#8a4fa8"),
    *("#a67c00", "#a8325e", "#1d7f86", "#6b6157"),
)
_FILE_COLOURS = {"currentColor": "#1d1f21", "var(--line)": "#d9dad5"} | {
    f"var(--series-{k})": colour for k, colour in enumerate(FILE_SERIES)
}
MOST_TICKS = 12  # whose numbers fit side by side


class Canvas(NamedTuple):
    """Where a drawing is made; ``svg`` holds the drawing once its ``with`` block has ended."""

    figure: "Figure"
    axes: "Axes"
    svg: list[Markup]


@contextmanager
def canvas(title: str, *, height: float) -> Iterator[Canvas]:
    """A drawing of ``height`` inches with one pair of axes, under ``title`` in the page."""
    # Imported here: only the pages that draw pay for it.
    import matplotlib as mpl
    from matplotlib.figure import Figure

    style: dict[Any, Any] = {  # of names that matplotlib lists one by one
        "svg.fonttype": "none",  # text stays text: selectable, in the page's font
        "svg.hashsalt": title,  # ids depend on the drawing alone, and differ between drawings
        "font.size": 10,
        "text.color": INK,
        "axes.labelcolor": INK,
        "axes.edgecolor": LINE,
        "axes.facecolor": "none",
        "figure.facecolor": "none",
        "xtick.color": INK,
        "ytick.color": INK,
        "axes.spines.top": False,
        "axes.spines.right": False,
    }
    result: list[Markup] = []
    with mpl.rc_context(style):
        drawing = Figure(figsize=(7.6, height))  # inches; the page scales it
        yield Canvas(drawing, drawing.add_subplot(), result)
        raw = io.StringIO()
        drawing.savefig(raw, format="svg", metadata={"Date": None, "Creator": None})
    result.append(figure(_inline(raw.getvalue(), title), title))


def finish(
    figure: "Figure",
    axes: "Axes",
    logarithmic: "Iterable[Axis]" = (),
    grid: Literal["both", "x"] = "both",
    columns: int = 6,
) -> None:
    """Draw the grid, plain numbers on logarithmic axes (not powers of ten), the legend on top."""
    from matplotlib.ticker import FuncFormatter, LogLocator, NullFormatter

    for axis in logarithmic:
        low, high = axis.get_view_interval()
        coarse = [k * 10.0**e for e in range(-12, 12) for k in (1, 2, 5)]
        count = sum(low <= value <= high for value in coarse)
        subs = (1,) if count > MOST_TICKS else (1, 2, 5) if count > 2 else range(1, 10)
        axis.set_major_locator(LogLocator(subs=subs))
        axis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:,g}"))
        axis.set_minor_formatter(NullFormatter())
    axes.grid(True, axis=grid, color=LINE, linewidth=0.6)
    axes.set_axisbelow(True)
    place: dict[str, Any] = {"loc": "lower left", "bbox_to_anchor": (0, 1), "borderpad": 0}
    axes.legend(frameon=False, fontsize=8, ncols=columns, **place)
    figure.tight_layout()


def label_points(axes: "Axes", points: Sequence[tuple[str, float, float]]) -> None:
    """Name each point on the first side where its words fit and hide nothing, or not at all."""
    letter, line = 4.3, 8.0  # points: size of a letter of 7 points, generously
    # In points from the corner of the figure, which is where labels are measured too.
    scale = 72 / axes.figure.dpi
    places = [(x * scale, y * scale) for x, y in axes.transData.transform([p[1:] for p in points])]
    left, _, right, _ = (edge * scale for edge in axes.bbox.extents)
    taken = [(x - 4, y - 4, x + 4, y + 4) for x, y in places]
    for (words, *_), (x, y) in zip(points, places, strict=True):
        width = letter * len(words)
        for side, dy in (("right", 2), ("left", 2), ("right", -9), ("left", -9), ("right", 10)):
            anchor = x + 5 if side == "right" else x - 5
            start = anchor if side == "right" else anchor - width
            box = (start, y + dy, start + width, y + dy + line)
            inside = left <= box[0] and box[2] <= right + 8  # the figure ends a little further out
            if inside and not any(_overlap(box, other) for other in taken):
                taken.append(box)
                axes.annotate(
                    words,
                    (anchor, y + dy),
                    xycoords="figure points",
                    # Ends or starts at the point, however wide the reader's font is.
                    horizontalalignment="left" if side == "right" else "right",
                    fontsize=7,
                    color=INK,
                    annotation_clip=False,
                )
                break


def _overlap(a: tuple[float, ...], b: tuple[float, ...]) -> bool:
    return a[0] < b[2] and b[0] < a[2] and a[1] < b[3] and b[1] < a[3]


def _inline(svg: str, title: str) -> str:
    """The ``<svg>`` element alone, sized by the page and in its colours."""
    svg = svg[svg.index("<svg") :]
    svg = re.sub(r"<metadata>.*?</metadata>", "", svg, flags=re.DOTALL)
    svg = re.sub(r"<style type=\"text/css\">.*?</style>", "", svg, flags=re.DOTALL)
    svg = re.sub(r"<!--.*?-->\s*", "", svg, flags=re.DOTALL)
    svg = re.sub(
        r'<svg [^>]*?(viewBox="[^"]*")[^>]*>',
        rf'<svg \1 role="img" aria-label="{escape(title)}">',
        svg,
    )
    svg = re.sub(r'<g id="[^"]*"', "<g", svg)  # nothing refers to groups; two drawings may share
    svg = svg.replace("xlink:href", "href")
    svg = re.sub(r"font: [\d.]+px [^;\"]*", lambda m: _font_size(m.group()), svg)
    for colour, page_colour in _PAGE_COLOURS.items():
        svg = svg.replace(colour, page_colour)
    return svg


def _font_size(style: str) -> str:
    """``font: 9px 'DejaVu Sans', ...`` names fonts; the page's own is meant."""
    return f"font-size: {style.split()[1]}"


def standalone(markup: str) -> str:
    """Return the drawing of a figure as an SVG file: its own size, colours and background."""
    (svg,) = re.findall(r"<svg.*?</svg>", markup, re.DOTALL)
    for of_page, colour in _FILE_COLOURS.items():
        svg = svg.replace(of_page, colour)
    _, _, width, height = re.search(r'viewBox="([^"]*)"', svg)[1].split()  # type: ignore[index]
    opening = (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}" width="{width}"'
        f' height="{height}" font-family="sans-serif">'
        f'<rect width="{width}" height="{height}" fill="white"/>'
    )
    return opening + svg[svg.index(">") + 1 :] + "\n"


def check_plot(path: Path) -> None:
    """Refuse a kind of file that cannot be drawn, before anything is computed."""
    if path.suffix != ".svg":
        raise CommandError(f"a plot is a file ending in .svg, not {path.name!r}")


def write_plot(path: Path, markup: str) -> None:
    """Write a figure as a file."""
    check_plot(path)
    write_atomic(path, standalone(markup))
