"""The page of results: its data agree with the model, and every drawing is there."""

import re
from dataclasses import replace

import pytest

from tilewright.claims import Compare
from tilewright.claims.scoreboard import evaluate
from tilewright.report.pages import scoreboard
from tilewright.report.surfaces import region_diagram, surface_drawing
from tilewright.sim.roofsurface import Kernel, Surface

DRAWINGS = (
    *("latency-by-batch", "latency-by-context", "energy-by-context"),
    *("speedups-spr-ddr", "speedups-spr-hbm", "cores", "roofline-spr-ddr", "roofline-spr-hbm"),
    *("roof-surface", "regions-0", "regions-1", "regions-2", "regions-3"),
    *("size-0", "size-1", "size-2", "integration", "anda-lengths"),
)


@pytest.fixture
def data(written):
    return written.data["results"]


def test_every_drawing_is_there(written):
    text = (written.folder / "results.html").read_text()
    assert tuple(re.findall(r'<svg [^>]*aria-label="([^"]*)"', text)) == DRAWINGS


def test_regions_are_those_of_the_paper(data):
    bounds = data["regions"]
    assert {s for s, bound in bounds["DDR"].items() if bound == "VEC"} == {"bf8_10%", "bf8_5%"}
    assert "VEC" not in data["sizes"]["W=32, L=8"].values()
    assert list(data["sizes"]["W=8, L=4"].values()).count("VEC") == 11


def test_latency_never_falls_as_batch_or_context_grow(data):
    for kind in ("batches", "contexts"):
        for series in data[kind].values():
            values = [y for _, y in series]
            assert values == sorted(values)


# Where the memory bounds both, software and DECA take the same time. Software's is bytes over
# bandwidth; DECA's is that of 86 tiles of a stream, whose two ends move with the lines that are
# then on their way: 0.7% at most here, 0.2% with four times as many tiles.
STREAM_RESOLUTION = 0.01


def test_deca_is_between_software_and_the_optimum(data):
    for machine in data["speedups"].values():
        gains = machine["speedups"]
        for software, deca, best in zip(
            gains["software"], gains["deca"], gains["optimal"], strict=True
        ):
            assert software <= deca * (1 + STREAM_RESOLUTION)
            assert deca <= best


def test_drawings_name_their_points():
    surface = Surface(memory=100.0, vector=10.0, matrix=5.0)
    points = [Kernel("here", 0.01, 1.0), Kernel("there", 0.2, 0.1)]
    diagram = region_diagram("regions", surface, points)
    assert "here" in diagram
    drawing = surface_drawing("surface", surface, 1, {p.name: (p, 1e-9) for p in points})
    assert "there" in drawing
    assert "var(--series-0)" in drawing


@pytest.mark.parametrize(
    ("compare", "tolerance", "allowed", "unit", "shown"),
    [
        (Compare.RELATIVE, 0.05, "5%", "percent", "+2.50%"),
        (Compare.AT_LEAST, None, "at least", "percent", "+2.50%"),
        (Compare.ABSOLUTE, 0.1, "0.1", "GB/s", "+2.50"),
    ],
)
def test_deviations_of_the_scoreboard_have_their_unit(compare, tolerance, allowed, unit, shown):
    (result, *_) = evaluate(["sparamx"])["sparamx"]
    changed = replace(
        result, compare=compare, tolerance=tolerance, deviation=2.5, deviation_unit=unit
    )
    assert (changed.tolerance_text, changed.deviation_text) == (allowed, shown)
    row = scoreboard._paper("sparamx", [changed])
    assert f">{allowed}<" in row
    assert f">{shown}<" in row
