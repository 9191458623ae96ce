"""Matplotlib drawings as SVG that takes its colours and fonts from the page around it."""

import io
import re
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

from tilewright.report.html import Markup

__all__ = ["Series", "curves", "dot_rows", "panels", "scatter"]

# Stand-ins that nothing else draws with; `_inline` turns them into the page's own colours, so one
# drawing serves light and dark.
INK, LINE = "#010203", "#040506"
SERIES = [f"#0708{k:02x}" for k in range(8)]
_PAGE_COLOURS = {INK: "currentColor", LINE: "var(--line)"} | {
    colour: f"var(--series-{k})" for k, colour in enumerate(SERIES)
}
MARKERS = "osD^vPX*"

Series = Sequence[tuple[float, float]]  # x, y


def curves(
    name: str,
    lines: dict[str, Series],
    points: dict[str, Series],
    *,
    x_label: str,
    y_label: str,
    logarithmic: bool = False,
) -> Markup:
    """A line per group, and markers in the colour of the group of the same name.

    ``logarithmic`` is about the y axis.
    """
    with _figure(name, height=3.8) as (figure, axes, svg):
        for k, (group, line) in enumerate(lines.items()):
            look: dict[str, Any] = {"color": SERIES[k], "linewidth": 1.4}
            axes.plot(*zip(*line, strict=True), **look)
            if points.get(group):
                look |= {"marker": MARKERS[k], "markersize": 5}
                axes.plot(*zip(*points[group], strict=True), **look | {"linestyle": ""})
            axes.plot([], [], label=group, **look)  # for the legend: line and marker in one
        axes.set(xlabel=x_label, ylabel=y_label)
        if logarithmic:
            axes.set(yscale="log")
        axes.grid(True, which="major", color=LINE, linewidth=0.6)
        _finish(figure, axes, [axes.yaxis] if logarithmic else [])
    return svg[0]


def panels(
    name: str,
    columns: dict[str, tuple[dict[str, Series], dict[str, Series]]],
    *,
    y_label: str,
    largest: float,
) -> Markup:
    """Drawings side by side over one y axis, which ends at ``largest``.

    ``columns`` has, for each label of an x axis, lines and points as :func:`curves` takes them;
    groups have the same colour in all of them.
    """
    groups = list(dict.fromkeys(g for lines, points in columns.values() for g in (*lines, *points)))
    with _figure(name, height=4.6) as (figure, first, svg):
        first.remove()
        drawn = figure.subplots(1, len(columns), sharey=True)
        for axes, (x_label, (lines, points)) in zip(drawn, columns.items(), strict=True):
            for group, line in lines.items():
                axes.plot(
                    *zip(*line, strict=True), color=SERIES[groups.index(group)], linewidth=1.4
                )
            for group, places in points.items():
                k = groups.index(group)
                axes.scatter(
                    *zip(*places, strict=True),
                    color=SERIES[k],
                    marker=MARKERS[k],
                    s=22,
                    label=group,
                )
            axes.set(xlabel=x_label)
            axes.grid(True, which="major", color=LINE, linewidth=0.6)
            axes.set_axisbelow(True)
        drawn[0].set(ylabel=y_label)
        drawn[0].set_ylim(top=largest)
        _finish(figure, drawn[0], [])
    return svg[0]


def scatter(
    name: str,
    groups: dict[str, Sequence[tuple[str, float, float]]],
    *,
    x_label: str,
    y_label: str,
    diagonal: bool = False,
) -> Markup:
    """Labelled points on two logarithmic axes, one colour and marker per group.

    ``diagonal`` draws the line on which x and y are equal.
    """
    with _figure(name, height=4.6) as (figure, axes, svg):
        if diagonal:
            values = [
                value for points in groups.values() for point in points for value in point[1:]
            ]
            ends = min(values), max(values)
            axes.plot(ends, ends, color=INK, linewidth=0.6)
        for k, (group, points) in enumerate(groups.items()):
            axes.scatter(
                [x for _, x, _ in points],
                [y for _, _, y in points],
                color=SERIES[k],
                marker=MARKERS[k],
                s=26,
                label=group,
            )
        axes.set(xscale="log", yscale="log", xlabel=x_label, ylabel=y_label)
        axes.margins(x=0.09)  # room for words beside the outermost points
        axes.grid(True, which="major", color=LINE, linewidth=0.6)
        _finish(figure, axes, [axes.xaxis, axes.yaxis])
        _label(axes, [point for points in groups.values() for point in points])
    return svg[0]


def frontier(
    name: str,
    designs: Series,
    best: Series,
    marked: Sequence[tuple[str, float, float]],
    *,
    x_label: str,
    y_label: str,
) -> Markup:
    """Designs as dots, the best of them joined by steps, some of all circled and named."""
    with _figure(name, height=4.2) as (figure, axes, svg):
        axes.scatter(*zip(*designs, strict=True), color=SERIES[0], s=14, label="designs")
        axes.step(
            *zip(*best, strict=True), where="post", color=SERIES[1], linewidth=1.4, label="best"
        )
        if marked:
            places = [point[1:] for point in marked]
            ring = {"facecolors": "none", "edgecolors": SERIES[2], "linewidths": 1.4, "s": 80}
            axes.scatter(*zip(*places, strict=True), label="of a paper", **ring)
        axes.set(xscale="log", yscale="log", xlabel=x_label, ylabel=y_label)
        axes.margins(x=0.09)
        axes.grid(True, which="major", color=LINE, linewidth=0.6)
        _finish(figure, axes, [axes.xaxis, axes.yaxis])
        _label(axes, marked)
    return svg[0]


def bars(
    name: str, labels: Sequence[str], groups: dict[str, Sequence[float]], *, x_label: str
) -> Markup:
    """One row per label, a bar per group from zero; the first label on top."""
    thickness = 0.8 / len(groups)
    with _figure(name, height=0.9 + 0.24 * len(labels)) as (figure, axes, svg):
        axes.grid(True, axis="x", color=LINE, linewidth=0.6)
        for k, (group, values) in enumerate(groups.items()):
            rows = [row - 0.4 + (k + 0.5) * thickness for row in range(len(labels))]
            axes.barh(rows, values, thickness, color=SERIES[k], label=group)
        axes.set(xlabel=x_label)
        axes.set_yticks(range(len(labels)), labels, fontsize=8)
        axes.set_ylim(len(labels) - 0.4, -0.6)
        _finish(figure, axes, [])
    return svg[0]


def _label(axes: Any, points: Sequence[tuple[str, float, float]]) -> None:
    """Words beside each point, on the first side where they fit and hide nothing, or nowhere."""
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


def dot_rows(
    name: str, labels: Sequence[str], groups: dict[str, Sequence[float]], *, x_label: str
) -> Markup:
    """One row per label, one marker per group, on a logarithmic axis; the first label on top.

    Markers and not bars: on a logarithmic axis the length of a bar means nothing.
    """
    with _figure(name, height=0.9 + 0.24 * len(labels)) as (figure, axes, svg):
        rows = range(len(labels))
        axes.grid(True, color=LINE, linewidth=0.6)
        for k, (group, values) in enumerate(groups.items()):
            axes.scatter(values, rows, color=SERIES[k], marker=MARKERS[k], s=26, label=group)
        axes.set(xscale="log", xlabel=x_label)
        axes.set_yticks(rows, labels, fontsize=8)
        axes.set_ylim(len(labels) - 0.4, -0.6)
        _finish(figure, axes, [axes.xaxis])
    return svg[0]


@contextmanager
def _figure(name: str, *, height: float) -> Iterator[tuple[Any, Any, list[Markup]]]:
    """Figure, axes and a list that holds the SVG once the block has ended."""
    # Imported here: only the pages that draw pay for it.
    import matplotlib as mpl
    from matplotlib.figure import Figure

    style = {
        "svg.fonttype": "none",  # text stays text: selectable, in the page's font
        "svg.hashsalt": name,  # ids depend on the drawing alone, and differ between drawings
        "font.size": 9,
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
        figure = Figure(figsize=(8.6, height))  # inches; the page scales it
        yield figure, figure.add_subplot(), result
        raw = io.StringIO()
        figure.savefig(raw, format="svg", metadata={"Date": None, "Creator": None})
    result.append(_inline(raw.getvalue(), name))


def _finish(figure: Any, axes: Any, logarithmic: list[Any]) -> None:
    """Plain numbers on logarithmic axes (100, not a power of ten) and the legend out of the way."""
    from matplotlib.ticker import FuncFormatter, LogLocator, NullFormatter

    for axis in logarithmic:
        low, high = axis.get_view_interval()
        coarse = [k * 10.0**e for e in range(-12, 12) for k in (1, 2, 5)]
        enough = sum(low <= value <= high for value in coarse) > 2
        axis.set_major_locator(LogLocator(subs=(1, 2, 5) if enough else range(1, 10)))
        axis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:,g}"))
        axis.set_minor_formatter(NullFormatter())
    axes.set_axisbelow(True)
    axes.legend(
        frameon=False, fontsize=8, ncols=6, loc="lower left", bbox_to_anchor=(0, 1), borderpad=0
    )
    figure.tight_layout()


def _inline(svg: str, name: str) -> Markup:
    """The ``<svg>`` element alone, sized by the page and in its colours."""
    svg = svg[svg.index("<svg") :]
    svg = re.sub(r"<metadata>.*?</metadata>", "", svg, flags=re.DOTALL)
    svg = re.sub(r"<style type=\"text/css\">.*?</style>", "", svg, flags=re.DOTALL)
    svg = re.sub(r"<!--.*?-->\s*", "", svg, flags=re.DOTALL)
    svg = re.sub(
        r'<svg [^>]*?(viewBox="[^"]*")[^>]*>', rf'<svg \1 role="img" aria-label="{name}">', svg
    )
    svg = re.sub(r'<g id="[^"]*"', "<g", svg)  # nothing refers to groups; two drawings may share
    svg = svg.replace("xlink:href", "href")
    svg = re.sub(r"font: [\d.]+px [^;\"]*", lambda m: _font_size(m.group()), svg)
    for colour, page_colour in _PAGE_COLOURS.items():
        svg = svg.replace(colour, page_colour)
    return Markup(svg)


def _font_size(style: str) -> str:
    """``font: 9px 'DejaVu Sans', ...`` names fonts; the page's own is meant."""
    return f"font-size: {style.split()[1]}"
