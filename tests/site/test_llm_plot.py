"""Plots of sweeps over questions about language models."""

import pytest

from tilewright.base.errors import CommandError
from tilewright.sim.serving import Question
from tilewright.sim.sweep import points_of, sweep
from tilewright.site.llm_plot import best, plot_sweep

QUESTION = Question(model="opt-125m")


def test_best_is_what_no_other_beats_in_both():
    found = sweep(QUESTION, {"batch": (1, 8, 64), "engine": ("deca", "software")})
    front = best(found)
    assert [answer.batch for answer in front] == [1, 8, 64]
    assert all(
        any(
            b.latency_ms <= a.latency_ms and b.tokens_per_second >= a.tokens_per_second
            for b in front
        )
        for a in found
    )


@pytest.mark.parametrize(
    "axes", [{"context": (64, 128), "batch": (1, 2, 4)}, {"engine": ("deca", "software")}], ids=str
)
def test_plots_are_equal_for_equal_sweeps(tmp_path, axes):
    found, points = sweep(QUESTION, axes), points_of(QUESTION, axes)
    drawn, path = [], tmp_path / "plot.svg"
    for _ in range(2):
        plot_sweep(found, points, path)
        drawn.append(path.read_text())
    assert drawn[0] == drawn[1]
    for words in ("tokens/s", next(iter(axes)) if "batch" not in axes else "context"):
        assert words in drawn[0]
    with pytest.raises(CommandError, match=r"^a plot is a file ending in .svg, not 'x\.gif'$"):
        plot_sweep(found, points, tmp_path / "x.gif")
