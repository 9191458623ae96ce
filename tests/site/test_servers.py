"""Whole models and bounds: trends of the model, the regions that the papers draw, sweeps."""

import pytest

from tilewright.base.errors import CommandError
from tilewright.sim.roofsurface import Kernel, Surface
from tilewright.sim.serving import Question
from tilewright.sim.sweep import points_of, sweep
from tilewright.site import servers
from tilewright.site.llm_plot import best, plot_sweep
from tilewright.site.surfaces import region_diagram


@pytest.mark.parametrize("series", [servers.batches, servers.contexts])
def test_latency_never_falls_as_batch_or_context_grow(series):
    for line in series().values():
        values = [y for _, y in line]
        assert values == sorted(values)


# Where the memory bounds both, software and DECA take the same time. Software's is bytes over
# bandwidth; DECA's is that of 86 tiles of a stream, whose two ends move with the lines that are
# then on their way: 0.7% at most here, 0.2% with four times as many tiles. Where prefetches are
# dropped, of bf16 at 50%, DECA loses 1.2%, which software's formula does not have.
STREAM_RESOLUTION = 0.015


@pytest.mark.parametrize("system", ["spr-ddr", "spr-hbm"])
def test_deca_is_between_software_and_the_optimum(system):
    gains = servers.speedups(system)
    for software, deca, optimum in zip(
        gains["software"], gains["deca"], gains["optimal"], strict=True
    ):
        assert software <= deca * (1 + STREAM_RESOLUTION)
        assert deca <= optimum


def test_drawings_name_their_points():
    surface = Surface(memory=100.0, vector=10.0, matrix=5.0)
    points = [Kernel("here", 0.01, 1.0), Kernel("there", 0.2, 0.1)]
    found = region_diagram("regions", surface.borders, [(p, surface.bound(p)) for p in points])
    assert "here" in found and "var(--series-0)" in found


# Sweeps.

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
