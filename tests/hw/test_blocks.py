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
from tilewright.golden.params.resolve import BLOCKS
from tilewright.hw.catalog import build

# Tens of seconds each; their Verilog has the same vectors and stalls in tests/verify.
LONG = {f"anda_vector:{name}" for name in ("fused", "paced", "paced_fused")}
PRESETS = [
    pytest.param(
        BLOCKS[block].preset(name),
        id=f"{block}:{name}",
        marks=[pytest.mark.full] if f"{block}:{name}" in LONG else [],
    )
    for block in catalogued_units()
    for name in BLOCKS[block].PRESETS
]


# One is enough: a worker runs all tests of a preset one after the other (tests/support/workers.py).
@lru_cache(maxsize=1)
def unit(params):
    return Prepared(build(params))


# Cases fall as stalls stretch the run: each takes a few hundred cycles.
@pytest.mark.parametrize(("stall", "cases"), [(0.0, 200), (0.3, 100), (0.8, 30)])
@pytest.mark.parametrize("params", PRESETS)
def test_unit_equals_golden(params, stall, cases):
    trace = simulate(params, dut=unit(params), cases=cases, stall=stall, patient=stall == 0.3)
    if not stall:
        require_interval(params, trace)


@pytest.mark.parametrize("params", PRESETS)
def test_latency_is_as_stated(params):
    trace = simulate(params, dut=unit(params), cases=12, one_at_a_time=True)
    assert measured_latency(params, trace) == params.timing.latency


@pytest.mark.parametrize("latency", [1, 2, 3, 7])
@pytest.mark.parametrize("block", [cls.block for cls in ARITH_BLOCKS])
def test_any_latency_gives_the_same_results(block, latency):
    params = BLOCKS[block].preset(latency=latency)
    dut = Prepared(build(params))
    trace = simulate(params, dut=dut, cases=12, one_at_a_time=True)
    assert measured_latency(params, trace) == latency
    require_interval(params, simulate(params, dut=dut, cases=40))
