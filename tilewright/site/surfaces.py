"""The bounding region diagram of the Roof-Surface, in a page or as a file."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from tilewright.base.errors import CommandError
from tilewright.sim.roofsurface import DOMAINS, Diagram, Kernel, Surface
from tilewright.site.canvas import SERIES, canvas, finish, label_points
from tilewright.site.html import Markup
from tilewright.site.llm_plot import check_plot, save_plot


def _ranges(points: Sequence[Kernel]) -> tuple[tuple[float, float], tuple[float, float]]:
    """The ranges of both intensities, with room around the points."""
    sides = []
    for name in ("memory", "vector"):
        values = [getattr(p, name) for p in points if np.isfinite(getattr(p, name))]
        sides.append((min(values) / 1.6, max(values) * 1.6))
    return sides[0], sides[1]


def _draw_regions(
    axes: Any,
    borders: Mapping[str, float],
    points: Sequence[tuple[Kernel, str]],
    colours: Sequence[str],
) -> None:
    """Shade which domain bounds where, and mark kernels, of which each has its bound."""
    (x_low, x_high), (y_low, y_high) = _ranges([point for point, _ in points])
    corner_x, corner_y = borders["mem_mtx_x"], borders["vec_mtx_y"]
    x_high, y_high = max(x_high, 1.5 * corner_x), max(y_high, 1.5 * corner_y)
    corner = np.clip(corner_x, x_low, x_high)  # where two regions meet, so that both reach it
    x = np.union1d(np.geomspace(x_low, x_high, 200), corner)
    diagonal = np.minimum(borders["mem_vec_slope"] * x, corner_y)
    shade: dict[str, Any] = {"alpha": 0.16, "linewidth": 0}
    axes.fill_between(x, y_low, diagonal, color=colours[1], **shade)
    for side, colour in ((x <= corner, colours[0]), (x >= corner, colours[2])):
        axes.fill_between(x[side], diagonal[side], y_high, color=colour, **shade)
    for domain, colour in zip(DOMAINS, colours, strict=False):
        chosen = [point for point, bound in points if bound == domain]
        axes.scatter(
            [point.memory for point in chosen],
            [point.vector for point in chosen],
            color=colour,
            s=26,
            label=f"bound by {domain}",
        )
    axes.set(
        xscale="log",
        yscale="log",
        xlim=(x_low, x_high),
        ylim=(y_low, y_high),
        xlabel="matrix operations per byte",
        ylabel="matrix operations per vector operation",
    )


def region_diagram(title: str, surface: Surface, points: Sequence[Kernel]) -> Markup:
    """Draw which domain bounds where, and the kernels, on two logarithmic axes."""
    bounds = [(point, surface.bound(point)) for point in points]
    with canvas(title, height=4.2) as (figure, axes, svg):
        _draw_regions(axes, surface.borders, bounds, SERIES)
        finish(figure, axes, [axes.xaxis, axes.yaxis])
        label_points(axes, [(p.name, p.memory, p.vector) for p in points])
    return svg[0]


def plot_regions(found: Diagram, path: Path) -> None:
    """Draw the same into a file, of the kernels that decompress something.

    Accelerators have no vector domain: they are in a panel of their own, a roofline each, with the
    server's kernels among them.
    """
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    check_plot(path)
    points = [
        (Kernel(k.scheme, k.matrix_ops_per_byte, k.matrix_ops_per_vector_op), k.bound)
        for k in found.kernels
        if k.matrix_ops_per_vector_op is not None
    ]
    if not points:
        raise CommandError("no kernel decompresses anything: there is nothing to draw")
    panels = 2 if found.accelerators else 1
    figure = Figure(figsize=(7 * panels, 5), layout="constrained")  # inches
    FigureCanvasAgg(figure)
    axes, *others = figure.subplots(1, panels, squeeze=False)[0]
    _draw_regions(axes, found.borders, points, ("tab:blue", "tab:orange", "tab:green"))
    for point, _ in points:
        place = point.memory, point.vector
        axes.annotate(point.name, place, (4, 3), textcoords="offset points", fontsize=7)
    axes.legend(fontsize=7)
    for panel in others:
        _draw_accelerators(panel, found)
    save_plot(figure, path)


def _draw_accelerators(axes: Any, found: Diagram) -> None:
    """A roofline each, with the point of this batch on or, where PEs are idle, below it."""
    places = [row.macs_per_byte for row in found.kernels]
    places += [row.macs_per_byte for row in found.accelerators]
    low, high = min(places) / 4, max(places) * 4
    for row in found.accelerators:
        per_byte = row.bytes_per_second / 1e12
        knee = min(max(row.peak_tera_fma_per_second / per_byte, low), high)
        x = [low, knee, high]
        roof = [min(per_byte * value, row.peak_tera_fma_per_second) for value in x]
        (line,) = axes.plot(x, roof, linewidth=1, label=row.system)
        axes.plot([row.macs_per_byte], [row.tera_fma_per_second], "o", color=line.get_color())
    for kernel in found.kernels:
        at = kernel.macs_per_byte, kernel.tera_fma_per_second
        axes.plot(*([value] for value in at), ".", color="grey")
        axes.annotate(kernel.scheme, at, (4, 3), textcoords="offset points", fontsize=6)
    axes.set(
        xscale="log",
        yscale="log",
        xlabel="multiply-adds per byte of weights",
        ylabel="tera multiply-adds a second",
    )
    axes.legend(fontsize=7)
