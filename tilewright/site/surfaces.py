"""The bounding region diagram of the Roof-Surface, in a page or as a file."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from tilewright.base.errors import CommandError
from tilewright.sim.roofsurface import DOMAINS, Diagram, Kernel
from tilewright.site.canvas import SERIES, canvas, check_plot, finish, label_points, write_plot
from tilewright.site.html import Markup


def _draw_regions(
    axes: Any, borders: Mapping[str, float], points: Sequence[tuple[Kernel, str]]
) -> None:
    """Shade which domain bounds where, and mark kernels, of which each has its bound."""
    x = [p.memory for p, _ in points if np.isfinite(p.memory)]
    y = [p.vector for p, _ in points if np.isfinite(p.vector)]
    corner_x, corner_y = borders["mem_mtx_x"], borders["vec_mtx_y"]
    x_low, x_high = min(x) / 1.6, max(1.6 * max(x), 1.5 * corner_x)  # room around the points
    y_low, y_high = min(y) / 1.6, max(1.6 * max(y), 1.5 * corner_y)
    corner = np.clip(corner_x, x_low, x_high)  # where two regions meet, so that both reach it
    edge = np.union1d(np.geomspace(x_low, x_high, 200), corner)
    diagonal = np.minimum(borders["mem_vec_slope"] * edge, corner_y)
    shade: dict[str, Any] = {"alpha": 0.16, "linewidth": 0}
    axes.fill_between(edge, y_low, diagonal, color=SERIES[1], **shade)
    for side, colour in ((edge <= corner, SERIES[0]), (edge >= corner, SERIES[2])):
        axes.fill_between(edge[side], diagonal[side], y_high, color=colour, **shade)
    for domain, colour in zip(DOMAINS, SERIES, strict=False):
        chosen = [(point.memory, point.vector) for point, bound in points if bound == domain]
        places = np.array(chosen).reshape(-1, 2).T
        axes.scatter(*places, color=colour, s=26, label=f"bound by {domain}")
    axes.set(
        **{"xscale": "log", "xlim": (x_low, x_high), "xlabel": "matrix operations per byte"},
        **{"yscale": "log", "ylim": (y_low, y_high)},
        ylabel="matrix operations per vector operation",
    )


def region_diagram(
    title: str,
    borders: Mapping[str, float],
    points: Sequence[tuple[Kernel, str]],
    beside: Diagram | None = None,
) -> Markup:
    """Draw which domain bounds where, and the kernels, on two logarithmic axes.

    The accelerators of ``beside`` have no vector domain: a panel of their own has their rooflines,
    with the server's kernels among them.
    """
    with canvas(title, height=4.2) as (figure, axes, svg):
        named = [(p.name, p.memory, p.vector) for p, _ in points]
        panels = [(axes, named)]
        if beside is not None and beside.accelerators:
            axes.remove()
            axes, other = figure.subplots(1, 2)
            rates = [(k.scheme, k.macs_per_byte, k.tera_fma_per_second) for k in beside.kernels]
            panels = [(axes, named), (other, rates)]
            _draw_accelerators(other, beside)
        _draw_regions(axes, borders, points)
        for panel, _ in panels:
            columns = 6 // len(panels) ** 2
            finish(figure, panel, [panel.xaxis, panel.yaxis], columns=columns)
        for panel, places in panels:
            label_points(panel, places)
    return svg[0]


def plot_regions(found: Diagram, path: Path) -> None:
    """Draw the kernels that decompress something, and the accelerators, into a file."""
    check_plot(path)
    points = [
        (Kernel(k.scheme, k.matrix_ops_per_byte, k.matrix_ops_per_vector_op), k.bound)
        for k in found.kernels
        if k.matrix_ops_per_vector_op is not None
    ]
    if not points:
        raise CommandError("no kernel decompresses anything: there is nothing to draw")
    write_plot(path, region_diagram("Bounds of the Roof-Surface", found.borders, points, found))


def _draw_accelerators(axes: Any, found: Diagram) -> None:
    """A roofline each, with the point of this batch on or, where PEs are idle, below it."""
    places = [k.macs_per_byte for k in found.kernels]
    places += [row.macs_per_byte for row in found.accelerators]
    low, high = min(places) / 4, max(places) * 4
    for row, colour in zip(found.accelerators, SERIES, strict=False):
        per_byte = row.bytes_per_second / 1e12
        knee = min(max(row.peak_tera_fma_per_second / per_byte, low), high)
        x = [low, knee, high]
        roof = [min(per_byte * value, row.peak_tera_fma_per_second) for value in x]
        axes.plot(x, roof, linewidth=1, color=colour, label=row.system)
        axes.plot([row.macs_per_byte], [row.tera_fma_per_second], "o", color=colour)
    axes.set(xscale="log", yscale="log")
    axes.set(xlabel="multiply-adds per byte of weights", ylabel="tera multiply-adds a second")
    kernels = [(k.macs_per_byte, k.tera_fma_per_second) for k in found.kernels]
    axes.plot(*zip(*kernels, strict=True), ".", color="grey")
