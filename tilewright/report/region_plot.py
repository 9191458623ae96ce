"""The bounding region diagram of the Roof-Surface as a file of its own."""

from pathlib import Path
from typing import Any

from tilewright.base.errors import CommandError
from tilewright.report.llm_plot import check_plot, save_plot
from tilewright.sim.roofsurface import DOMAINS, Diagram

__all__ = ["plot_regions"]

COLOURS = ("tab:blue", "tab:orange", "tab:green")


def plot_regions(found: Diagram, path: Path) -> None:
    """Draw which domain bounds where, and the kernels that decompress something."""
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
    figure = Figure(figsize=(7, 5), layout="constrained")  # inches
    FigureCanvasAgg(figure)
    axes: Any = figure.subplots()
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
    save_plot(figure, path)
