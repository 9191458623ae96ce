"""Whole models and bounds: trends of the model, and the regions that the papers draw."""

import pytest

from tilewright.sim.roofsurface import Kernel, Surface
from tilewright.site import servers
from tilewright.site.surfaces import region_diagram


def test_regions_are_those_of_the_paper():
    on_ddr, large, small = map(servers.bounds, ("DDR", "W=32, L=8", "W=8, L=4"))
    assert {s for s, bound in on_ddr.items() if bound == "VEC"} == {"bf8_10%", "bf8_5%"}
    assert "VEC" not in large.values()
    assert list(small.values()).count("VEC") == 11


@pytest.mark.parametrize("series", [servers.batches, servers.contexts])
def test_latency_never_falls_as_batch_or_context_grow(series):
    for line in series().values():
        values = [y for _, y in line]
        assert values == sorted(values)


# Where the memory bounds both, software and DECA take the same time. Software's is bytes over
# bandwidth; DECA's is that of 86 tiles of a stream, whose two ends move with the lines that are
# then on their way: 0.7% at most here, 0.2% with four times as many tiles.
STREAM_RESOLUTION = 0.01


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
