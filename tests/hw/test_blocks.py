"""Every unit of the catalogue, every preset, in Amaranth's simulator."""

from functools import lru_cache

import pytest

from tests.support.drive import (
    Prepared,
    catalogued_units,
    measured_latency,
    require_interval,
    simulate,
)
from tilewright.golden.params.arith import ARITH_BLOCKS
from tilewright.golden.params.resolve import BLOCKS, resolve
from tilewright.hw.catalog import build

# Seconds each, and what they have other presets have together.
LONG = ("anda_vector:fused", "anda_vector:paced")
NAMES = [f"{block}:{name}" for block in catalogued_units() for name in BLOCKS[block].PRESETS]
# Cases fall as stalls stretch the run: each takes a few hundred cycles.
STALLS = ((0.0, 80), (0.3, 80), (0.8, 30))


# One is enough: cases of a preset are neighbours.
@lru_cache(maxsize=1)
def unit(params):
    return Prepared(build(params))


@pytest.mark.parametrize(
    ("params", "stall", "cases"),
    [
        pytest.param(
            resolve(name), *run, id=f"{name}-{run[0]}-{run[1]}",
            marks=[pytest.mark.full] if run[0] == 0.8 or name in LONG else [],
        )
        for name in NAMES
        for run in STALLS
    ],
)  # fmt: skip
def test_unit_equals_golden(params, stall, cases):
    """In the cycles that its parameters state, where nothing stalls."""
    dut = unit(params)
    trace = simulate(params, dut=dut, cases=cases, stall=stall, patient=stall == 0.3)
    if not stall:
        require_interval(params, trace)
        trace = simulate(params, dut=dut, cases=12, one_at_a_time=True)
        assert measured_latency(params, trace) == params.timing.latency


@pytest.mark.parametrize(
    "latency", [*(pytest.param(n, marks=pytest.mark.full) for n in (1, 2, 3)), 7]
)
@pytest.mark.parametrize("block", [cls.block for cls in ARITH_BLOCKS])
def test_any_latency_gives_the_same_results(block, latency):
    params = BLOCKS[block].preset(latency=latency)
    dut = Prepared(build(params))
    trace = simulate(params, dut=dut, cases=12, one_at_a_time=True)
    assert measured_latency(params, trace) == latency
    require_interval(params, simulate(params, dut=dut, cases=40))
