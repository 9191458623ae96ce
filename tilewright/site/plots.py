"""The kinds of drawings: curves, panels, scatter plots, frontiers and bars."""

from collections.abc import Mapping, Sequence
from typing import Any

from tilewright.site.canvas import INK, LINE, SERIES, canvas, finish, label_points
from tilewright.site.html import Markup

MARKERS = "osD^vPX*"

Series = Sequence[tuple[float, float]]  # x, y


def _columns(points: Series) -> tuple[list[float], list[float]]:
    """All x and all y of ``points``."""
    return [x for x, _ in points], [y for _, y in points]


def curves(
    title: str,
    lines: Mapping[str, Series],
    points: Mapping[str, Series],
    *,
    x_label: str,
    y_label: str,
    logarithmic: bool = False,
) -> Markup:
    """Draw a line per group, and markers in the colour of the group of the same name.

    The y axis is logarithmic if ``logarithmic`` is set.
    """
    with canvas(title, height=3.8) as (figure, axes, svg):
        for k, (group, line) in enumerate(lines.items()):
            look: dict[str, Any] = {"color": SERIES[k], "linewidth": 1.4}
            axes.plot(*_columns(line), **look)
            if points.get(group):
                look |= {"marker": MARKERS[k], "markersize": 5}
                axes.plot(*_columns(points[group]), **look | {"linestyle": ""})
            axes.plot([], [], label=group, **look)  # for the legend: line and marker in one
        axes.set(xlabel=x_label, ylabel=y_label)
        if logarithmic:
            axes.set(yscale="log")
        finish(figure, axes, [axes.yaxis] if logarithmic else [])
    return svg[0]


def panels(
    title: str,
    columns: Mapping[str, tuple[Mapping[str, Series], Mapping[str, Series]]],
    *,
    y_label: str,
    largest: float,
) -> Markup:
    """Draw curves side by side over one y axis, which ends at ``largest``.

    ``columns`` has, for each label of an x axis, lines and points as :func:`curves` takes them;
    groups have the same colour in all of them.
    """
    groups = list(dict.fromkeys(g for lines, points in columns.values() for g in (*lines, *points)))
    with canvas(title, height=4.6) as (figure, first, svg):
        first.remove()
        drawn = figure.subplots(1, len(columns), sharey=True)
        for axes, (x_label, (lines, points)) in zip(drawn, columns.items(), strict=True):
            for group, line in lines.items():
                axes.plot(*_columns(line), color=SERIES[groups.index(group)], linewidth=1.4)
            for group, places in points.items():
                k = groups.index(group)
                axes.scatter(
                    *_columns(places), color=SERIES[k], marker=MARKERS[k], s=22, label=group
                )
            axes.set(xlabel=x_label)
            axes.grid(True, color=LINE, linewidth=0.6)
            axes.set_axisbelow(True)
        drawn[0].set(ylabel=y_label)
        drawn[0].set_ylim(top=largest)
        finish(figure, drawn[0])
    return svg[0]


def scatter(
    title: str,
    groups: Mapping[str, Sequence[tuple[str, float, float]]],
    *,
    x_label: str,
    y_label: str,
    diagonal: bool = False,
) -> Markup:
    """Draw labelled points on two logarithmic axes, one colour and marker per group.

    ``diagonal`` adds the line on which x and y are equal.
    """
    with canvas(title, height=4.6) as (figure, axes, svg):
        if diagonal:
            values = [v for points in groups.values() for point in points for v in point[1:]]
            ends = min(values), max(values)
            axes.plot(ends, ends, color=INK, linewidth=0.6)
        for k, (group, points) in enumerate(groups.items()):
            places = _columns([(x, y) for _, x, y in points])
            axes.scatter(*places, color=SERIES[k], marker=MARKERS[k], s=26, label=group)
        axes.set(xscale="log", yscale="log", xlabel=x_label, ylabel=y_label)
        axes.margins(x=0.09)  # room for labels at the outermost points
        finish(figure, axes, [axes.xaxis, axes.yaxis])
        label_points(axes, [point for points in groups.values() for point in points])
    return svg[0]


def frontier(
    title: str,
    designs: Series,
    best: Series,
    marked: Sequence[tuple[str, float, float]],
    *,
    x_label: str,
    y_label: str,
) -> Markup:
    """Draw designs as dots, join the best of them by steps, circle and name the marked ones."""
    with canvas(title, height=4.2) as (figure, axes, svg):
        axes.scatter(*_columns(designs), color=SERIES[0], s=14, label="designs")
        axes.step(*_columns(best), where="post", color=SERIES[1], linewidth=1.4, label="best")
        if marked:
            ring: dict[str, Any] = {
                "facecolors": "none",
                "edgecolors": SERIES[2],
                "linewidths": 1.4,
            }
            places = _columns([(x, y) for _, x, y in marked])
            axes.scatter(*places, label="of a paper", s=80, **ring)
        axes.set(xscale="log", yscale="log", xlabel=x_label, ylabel=y_label)
        axes.margins(x=0.09)
        finish(figure, axes, [axes.xaxis, axes.yaxis])
        label_points(axes, marked)
    return svg[0]


def bars(
    title: str,
    labels: Sequence[str],
    groups: Mapping[str, Sequence[float]],
    *,
    x_label: str,
    logarithmic: bool = False,
) -> Markup:
    """Draw one row per label with a bar per group from zero; the first label is on top.

    On a logarithmic axis there are markers instead: the length of a bar would mean nothing.
    """
    thickness = 0.8 / len(groups)
    with canvas(title, height=0.9 + 0.24 * len(labels)) as (figure, axes, svg):
        for k, (group, values) in enumerate(groups.items()):
            look: dict[str, Any] = {"color": SERIES[k], "label": group}
            rows = range(len(labels))
            if logarithmic:
                axes.scatter(values, rows, marker=MARKERS[k], s=26, **look)
            else:
                centres = [row - 0.4 + (k + 0.5) * thickness for row in rows]
                axes.barh(centres, values, thickness, **look)
        axes.set(xlabel=x_label, xscale="log" if logarithmic else "linear")
        axes.set_yticks(range(len(labels)), labels, fontsize=8)
        axes.set_ylim(len(labels) - 0.4, -0.6)
        finish(figure, axes, *([[axes.xaxis]] if logarithmic else [(), "x"]))
    return svg[0]
