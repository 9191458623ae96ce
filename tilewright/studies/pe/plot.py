"""The comparison of processing elements as bars."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from tilewright.studies.pe.compare import Comparison

__all__ = ["plot_efficiencies"]

TITLES = {
    "area_efficiency_x": "area efficiency (TOPS/mm2)",
    "energy_efficiency_x": "energy efficiency (TOPS/W)",
}


def plot_efficiencies(comparisons: Sequence[Comparison], path: Path) -> None:
    """Draw area and energy efficiency over the first PE, a panel each, a colour per technology."""
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    names = [pe.name for pe in comparisons[0].pes]
    figure = Figure(figsize=(max(9, 0.3 * len(names)), 6), layout="constrained")  # inches
    FigureCanvasAgg(figure)
    panels: Any = figure.subplots(len(TITLES), 1, sharex=True)
    width = 0.8 / len(comparisons)
    for k, comparison in enumerate(comparisons):
        places = [p + k * width for p in range(len(names))]
        for axes, (quantity, title) in zip(panels, TITLES.items(), strict=True):
            heights = [getattr(pe, quantity) for pe in comparison.pes]
            axes.bar(places, heights, width, label=comparison.technology)
            axes.set_ylabel(f"{title}\nover {names[0]}")
            axes.axhline(1, color="grey", linewidth=0.6)
    panels[0].legend()
    panels[-1].set_xticks(range(len(names)), names, rotation=45, ha="right")
    path.parent.mkdir(parents=True, exist_ok=True)
    figure.savefig(path)
