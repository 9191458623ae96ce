"""Drawings of the Roof-Surface: the surface itself and its bounding region diagram."""

from collections.abc import Sequence

import numpy as np

from tilewright.sim.roofsurface import DOMAINS, Kernel, Surface
from tilewright.site.canvas import INK, LINE, SERIES, canvas, finish, label_points
from tilewright.site.html import Markup

__all__ = ["region_diagram", "surface_drawing"]

GRID = 18  # cells of the surface along each axis
# Where the two horizontal axes of the surface point on paper; heights go straight up.
RIGHT, LEFT = np.array([0.86, -0.34]), np.array([-0.72, -0.42])


def _ranges(points: Sequence[Kernel]) -> tuple[tuple[float, float], tuple[float, float]]:
    """The ranges of both intensities, with room around the points."""
    sides = []
    for name in ("memory", "vector"):
        values = [getattr(p, name) for p in points if np.isfinite(getattr(p, name))]
        sides.append((min(values) / 1.6, max(values) * 1.6))
    return sides[0], sides[1]


def region_diagram(title: str, surface: Surface, points: Sequence[Kernel]) -> Markup:
    """Draw which domain bounds where, and the kernels, on two logarithmic axes."""
    (x_low, x_high), (y_low, y_high) = _ranges(points)
    border = surface.borders
    corner_x, corner_y = border["mem_mtx_x"], border["vec_mtx_y"]
    with canvas(title, height=4.2) as (figure, axes, svg):
        corner = np.clip(corner_x, x_low, x_high)  # where two regions meet, so that both reach it
        x = np.union1d(np.geomspace(x_low, x_high, 200), corner)
        diagonal = np.minimum(border["mem_vec_slope"] * x, corner_y)
        axes.fill_between(x, y_low, diagonal, color=SERIES[1], alpha=0.16, linewidth=0)
        for side, colour in ((x <= corner, SERIES[0]), (x >= corner, SERIES[2])):
            axes.fill_between(
                x[side], diagonal[side], y_high, color=colour, alpha=0.16, linewidth=0
            )
        for k, domain in enumerate(DOMAINS):
            chosen = [p for p in points if surface.bound(p) == domain]
            axes.scatter(
                [p.memory for p in chosen],
                [p.vector for p in chosen],
                color=SERIES[k],
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
        finish(figure, axes, [axes.xaxis, axes.yaxis])
        label_points(axes, [(p.name, p.memory, p.vector) for p in points])
    return svg[0]


def surface_drawing(
    title: str, surface: Surface, rows: int, points: dict[str, tuple[Kernel, float]]
) -> Markup:
    """Draw the surface from above its lowest corner; each point has its own height in TFMA/s.

    The axes are logarithmic in both intensities and linear in height.
    """
    kernels = [point for point, _ in points.values()]
    (x_low, x_high), (y_low, y_high) = _ranges(kernels)
    x, y = np.geomspace(x_low, x_high, GRID + 1), np.geomspace(y_low, y_high, GRID + 1)
    heights = surface.fma(x[:, None], y[None, :], rows) / 1e12
    centre = np.sqrt(x[:-1] * x[1:])[:, None], np.sqrt(y[:-1] * y[1:])[None, :]
    regions = surface.region(*centre)
    top = float(heights.max())

    def place(u: float, v: float, height: float) -> tuple[float, float]:
        return (
            u * RIGHT[0] + v * LEFT[0],
            u * RIGHT[1] + v * LEFT[1] + 0.9 * height / top,
        )

    u, v = np.linspace(0, 1, GRID + 1), np.linspace(0, 1, GRID + 1)
    with canvas(title, height=4.8) as (figure, axes, svg):
        # Cells behind come first; both axes run towards the viewer from the far corner (1, 1).
        for i in reversed(range(GRID)):
            for j in reversed(range(GRID)):
                corners = [(i, j), (i + 1, j), (i + 1, j + 1), (i, j + 1)]
                flat = [place(1 - u[a], 1 - v[b], heights[a, b]) for a, b in corners]
                axes.fill(
                    *zip(*flat, strict=True),
                    facecolor=SERIES[int(regions[i, j])],
                    edgecolor=LINE,
                    linewidth=0.2,
                    alpha=0.55,
                )
        for k in np.unique(regions).astype(int):
            axes.fill([], [], color=SERIES[k], alpha=0.55, label=f"bound by {DOMAINS[k]}")
        for label, (point, height) in points.items():
            a = 1 - np.log(point.memory / x_low) / np.log(x_high / x_low)
            b = 1 - np.log(point.vector / y_low) / np.log(y_high / y_low)
            foot, tip = place(a, b, 0.0), place(a, b, height)
            axes.plot(*zip(foot, tip, strict=True), color=INK, linewidth=0.7)
            axes.plot(*tip, marker="o", color=INK, markersize=4)
            axes.annotate(label, tip, (4, 3), textcoords="offset points", fontsize=7, color=INK)
        for (a, b), words in (((0.5, 1.08), "more per byte"), ((1.08, 0.5), "more per vector op")):
            axes.annotate(words, place(a, b, 0.0), fontsize=7, color=INK, ha="center", va="top")
        axes.set_axis_off()
        finish(figure, axes, [])
    return svg[0]
