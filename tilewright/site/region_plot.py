"""The bounding region diagram of the Roof-Surface as a file of its own.

Accelerators have no vector domain and no place in it: they stand in a panel of their own, a
roofline each, with the server's kernels among them.
"""

from pathlib import Path
from typing import Any

from tilewright.base.errors import CommandError
from tilewright.sim.roofsurface import DOMAINS, Diagram
from tilewright.site.llm_plot import check_plot, save_plot

__all__ = ["plot_regions"]

COLOURS = ("tab:blue", "tab:orange", "tab:green")


def plot_regions(found: Diagram, path: Path) -> None:
    """Draw which domain bounds where, the kernels that decompress something, and accelerators."""
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    check_plot(path)
    kernels = [k for k in found.kernels if k.matrix_ops_per_vector_op is not None]
    if not kernels:
        raise CommandError("no kernel decompresses anything: there is nothing to draw")
    x = [kernel.matrix_ops_per_byte for kernel in kernels]
    y = [kernel.matrix_ops_per_vector_op or 0.0 for kernel in kernels]
    low, high = (min(x) / 2, min(y) / 2), (max(x) * 2, max(y) * 2)
    corner = found.borders["mem_mtx_x"], found.borders["vec_mtx_y"]
    top = max(high[1], 1.5 * corner[1])
    right = max(high[0], 1.5 * corner[0])
    panels = 2 if found.accelerators else 1
    figure = Figure(figsize=(7 * panels, 5), layout="constrained")  # inches
    FigureCanvasAgg(figure)
    axes, *beside = figure.subplots(1, panels, squeeze=False)[0]
    slope = found.borders["mem_vec_slope"]
    line = [(v, min(slope * v, corner[1])) for v in (low[0], corner[1] / slope, corner[0], right)]
    line = sorted(line)
    xs, ys = [a for a, _ in line], [b for _, b in line]
    axes.fill_between(xs, low[1], ys, color=COLOURS[1], alpha=0.15, linewidth=0)
    for left, end, colour in ((low[0], corner[0], 0), (corner[0], right, 2)):
        part = [(a, b) for a, b in line if left <= a <= end]
        if len(part) > 1:
            axes.fill_between(
                [a for a, _ in part],
                [b for _, b in part],
                top,
                color=COLOURS[colour],
                alpha=0.15,
                linewidth=0,
            )
    for domain, shade in zip(DOMAINS, COLOURS, strict=True):
        chosen = [(a, b) for a, b, k in zip(x, y, kernels, strict=True) if k.bound == domain]
        axes.plot(*(zip(*chosen, strict=True) if chosen else ([], [])), "o", color=shade)
        axes.fill([], [], color=shade, alpha=0.4, label=f"bound by {domain}")
    for a, b, kernel in zip(x, y, kernels, strict=True):
        axes.annotate(kernel.scheme, (a, b), (4, 3), textcoords="offset points", fontsize=7)
    axes.set(
        xscale="log",
        yscale="log",
        xlim=(low[0], right),
        ylim=(low[1], top),
        xlabel="matrix operations per byte",
        ylabel="matrix operations per vector operation",
    )
    axes.legend(fontsize=7)
    for panel in beside:
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
