"""Sweeps over questions about language models, drawn: latency, rate, and the best of both."""

from collections.abc import Sequence
from pathlib import Path
from typing import TypeAlias

from tilewright.sim.llm import LlmResult
from tilewright.sim.serving import GenerationResult
from tilewright.sim.sweep import Point
from tilewright.site.canvas import INK, SERIES, canvas, check_plot, finish, write_plot

Answer: TypeAlias = LlmResult | GenerationResult
MOST_SERIES = 12  # of a legend that can be read


def plot_sweep(found: Sequence[Answer], points: Sequence[Point], path: Path) -> None:
    """Draw answers at the points of a sweep: against its first number, and against each other.

    Three panels: time of a step or token, tokens a second, and both against each other with a line
    through those that no other beats in both. Every other field of the sweep makes its own curves.
    """
    check_plot(path)
    names = list(points[0])
    axis = next((name for name in names if isinstance(points[0][name], int)), names[0])
    curves: dict[str, list[tuple[int | str, Answer]]] = {}
    for point, answer in zip(points, found, strict=True):
        label = " ".join(f"{name}={point[name]}" for name in names if name != axis)
        curves.setdefault(label, []).append((point[axis], answer))
    is_named = 1 < len(curves) <= MOST_SERIES
    subjects = {f"{answer.model} on {answer.system}" for answer in found}
    title = subjects.pop() if len(subjects) == 1 else "Sweep"
    with canvas(title, height=3.2 + 0.16 * is_named * len(curves)) as (figure, first, svg):
        first.remove()
        times, rates, both = figure.subplots(1, 3)
        for k, (label, line) in enumerate(curves.items()):
            x, answers = zip(*line, strict=True)
            y = [_milliseconds(answer) for answer in answers], [_rate(a) for a in answers]
            look = {"color": SERIES[k % len(SERIES)], "marker": "."}
            times.plot(x, y[0], label=label if is_named else "", **look)
            rates.plot(x, y[1], **look)
            both.plot(*y, linestyle="", **look)
        front = best(found)
        ends = [_milliseconds(answer) for answer in front], [_rate(answer) for answer in front]
        both.plot(*ends, color=INK, linewidth=0.8)
        times.plot([], [], color=INK, linewidth=0.8, label="no other is better in both")
        milliseconds = "ms a token" if isinstance(found[0], GenerationResult) else "ms a step"
        times.set(xlabel=axis, ylabel=milliseconds)
        rates.set(xlabel=axis, ylabel="tokens/s")
        both.set(xlabel=milliseconds, ylabel="tokens/s")
        values = [value for point in points if isinstance(value := point[axis], int)]
        wide = len(set(values)) > 2 and min(values) > 0 and max(values) / min(values) >= 32
        for panel in (times, rates):
            panel.set_xscale("log" if wide else panel.get_xscale())
        finish(figure, times, [times.xaxis, rates.xaxis] if wide else [], columns=1)
    write_plot(path, svg[0])


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
