"""Sweeps over questions about language models, drawn: latency, rate, and the best of both."""

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeAlias

from tilewright.base.errors import CommandError
from tilewright.base.files import open_atomic
from tilewright.sim.llm import LlmResult
from tilewright.sim.serving import GenerationResult
from tilewright.sim.sweep import Point

if TYPE_CHECKING:
    from matplotlib.figure import Figure

Answer: TypeAlias = LlmResult | GenerationResult
SUFFIXES = (".svg", ".png", ".pdf")
MOST_SERIES = 12  # of a legend that can be read


def plot_sweep(found: Sequence[Answer], points: Sequence[Point], path: Path) -> None:
    """Draw answers at the points of a sweep: against its first number, and against each other.

    Three panels: time of a step or token, tokens a second, and both against each other with those
    marked that no other beats in both. Every other field of the sweep makes curves of its own.
    """
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    check_plot(path)
    names = list(points[0])
    axis = next((name for name in names if isinstance(points[0][name], int)), names[0])
    curves: dict[str, list[tuple[int | str, Answer]]] = {}
    for point, answer in zip(points, found, strict=True):
        label = " ".join(f"{name}={point[name]}" for name in names if name != axis)
        curves.setdefault(label, []).append((point[axis], answer))
    figure = Figure(figsize=(12, 4), layout="constrained")  # inches
    FigureCanvasAgg(figure)
    panels: Any = figure.subplots(1, 3)
    for label, line in curves.items():
        x = [value for value, _ in line]
        for axes, value in zip(panels, (_milliseconds, _rate), strict=False):
            axes.plot(x, [value(answer) for _, answer in line], marker=".", label=label)
        panels[2].plot(
            [_milliseconds(a) for _, a in line], [_rate(a) for _, a in line], "o", markersize=3
        )
    front = best(found)
    panels[2].plot(
        [_milliseconds(a) for a in front],
        [_rate(a) for a in front],
        color="black",
        linewidth=0.8,
        label="no other is better in both",
    )
    panels[2].legend(fontsize=7)
    if 1 < len(curves) <= MOST_SERIES:
        panels[0].legend(fontsize=7)
    panels[0].set(xlabel=axis, ylabel="ms a token" if _whole(found) else "ms a step")
    panels[1].set(xlabel=axis, ylabel="tokens/s")
    panels[2].set(xlabel=panels[0].get_ylabel(), ylabel="tokens/s")
    if isinstance(points[0][axis], int) and len({p[axis] for p in points}) > 2:
        values = [int(p[axis]) for p in points]
        if min(values) > 0 and max(values) / min(values) >= 32:
            for axes in panels[:2]:
                axes.set_xscale("log", base=2)
    figure.suptitle(f"{found[0].model} on {found[0].system}" if _same(found) else "", fontsize=9)
    save_plot(figure, path)


def check_plot(path: Path) -> None:
    """Refuse a kind of file that cannot be drawn, before anything is computed."""
    if path.suffix not in SUFFIXES:
        raise CommandError(f"a plot is {', '.join(SUFFIXES)}, not {path.name!r}")


def save_plot(figure: "Figure", path: Path) -> None:
    """Write a drawing; without the date, so that equal ones are equal files."""
    import matplotlib as mpl

    undated: dict[str, dict[str, None]] = {".svg": {"Date": None}, ".pdf": {"CreationDate": None}}
    with mpl.rc_context({"svg.hashsalt": path.stem}), open_atomic(path) as file:
        figure.savefig(file, format=path.suffix[1:], metadata=undated.get(path.suffix, {}))


def _same(found: Sequence[Answer]) -> bool:
    return len({(answer.model, answer.system) for answer in found}) == 1


def _whole(found: Sequence[Answer]) -> bool:
    return isinstance(found[0], GenerationResult)


def _milliseconds(answer: Answer) -> float:
    return answer.latency_ms if isinstance(answer, LlmResult) else answer.token_ms


def _rate(answer: Answer) -> float:
    return answer.tokens_per_second


def best(found: Sequence[Answer]) -> list[Answer]:
    """Return the answers that no other beats in both time and rate, fastest first."""
    front: list[Answer] = []
    for answer in sorted(found, key=lambda a: (_milliseconds(a), -_rate(a))):
        if not front or _rate(answer) > _rate(front[-1]):
            front.append(answer)
    return front
