"""The bounding region diagram of the Roof-Surface."""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from tilewright.sim.roofsurface import DOMAINS, Kernel
from tilewright.site.canvas import SERIES, canvas, finish, label_points
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
    title: str, borders: Mapping[str, float], points: Sequence[tuple[Kernel, str]]
) -> Markup:
    """Draw which domain bounds where, and the kernels, on two logarithmic axes."""
    with canvas(title, height=4.2) as (figure, axes, svg):
        _draw_regions(axes, borders, points)
        finish(figure, axes, [axes.xaxis, axes.yaxis])
        label_points(axes, [(p.name, p.memory, p.vector) for p, _ in points])
    return svg[0]
