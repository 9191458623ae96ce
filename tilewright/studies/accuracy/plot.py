"""A drawing of perplexities over what they cost."""

from pathlib import Path

from tilewright.studies.accuracy.anda import LengthSearch

__all__ = ["plot_search", "save_plot"]


def plot_search(path: Path, search: LengthSearch) -> None:
    """Draw all trials of a search, with a line at the perplexity that the tolerance allows."""
    groups: dict[str, list[tuple[float, float]]] = {"within the tolerance": [], "beyond it": []}
    for trial in search.trials:
        name = "within the tolerance" if trial.within else "beyond it"
        groups[name].append((trial.saving, trial.perplexity))
    limit = search.reference * (1 + search.tolerance)
    label = "saving of bit operations over fp16 by INT4"
    save_plot(path, groups, x_label=label, limit=limit)


def save_plot(
    path: Path,
    groups: dict[str, list[tuple[float, float]]],
    *,
    x_label: str,
    limit: float | None = None,
) -> None:
    """Draw points (x, perplexity) to a file, a colour for each group and a line at ``limit``.

    The ending of ``path`` says the format: SVG, PNG or PDF.
    """
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    figure = Figure(figsize=(8, 4.5), layout="constrained")
    FigureCanvasAgg(figure)
    axes = figure.subplots()
    for name, points in groups.items():
        if points:
            axes.scatter([x for x, _ in points], [y for _, y in points], s=24, label=name)
    if limit is not None:
        axes.axhline(limit, color="grey", linewidth=0.8)
    axes.set(xlabel=x_label, ylabel="perplexity")
    axes.legend()
    path.parent.mkdir(parents=True, exist_ok=True)
    figure.savefig(path)
