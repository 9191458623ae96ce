"""Every unit of the catalogue, every preset, in Amaranth's simulator."""

from functools import lru_cache

import pytest

from tests.support.drive import (
    Prepared,
    catalogued_units,
    long_to_compile,
    measured_latency,
    require_interval,
    simulate,
)
from tilewright.golden.params.arith import ARITH_BLOCKS
from tilewright.golden.params.resolve import BLOCKS, resolve
from tilewright.hw.catalog import build

# Tens of seconds each; their Verilog has the same vectors and stalls in tests/verify.
LONG = {f"anda_vector:{name}" for name in ("fused", "paced", "paced_fused")}
NAMES = [f"{block}:{name}" for block in catalogued_units() for name in BLOCKS[block].PRESETS]
FIRST = [
    f"{block}:{next(iter(BLOCKS[block].PRESETS))}"
    for block in catalogued_units()
    if not any(long_to_compile(f"{block}:{name}") for name in BLOCKS[block].PRESETS)
]
# Cases fall as stalls stretch the run: each takes a few hundred cycles.
STALLS = ((0.0, 200), (0.3, 100), (0.8, 30))


def marks(name, stall):
    """Short runs have a block's first preset, with one rate of stalls.

    All are in tests/verify/test_blocks.py, as Verilog, latency and interval among what is required;
    what takes long to compile is not, and has all here.
    """
    other = (stall != 0.3 or name not in FIRST) and not long_to_compile(name)
    return [pytest.mark.full] if other or name in LONG else []


# One is enough: cases of a preset are neighbours.
@lru_cache(maxsize=1)
def unit(params):
    return Prepared(build(params))


@pytest.mark.parametrize(
    ("params", "stall", "cases"),
    [
        pytest.param(resolve(name), *run, id=f"{name}-{run[0]}-{run[1]}", marks=marks(name, run[0]))
        for name in NAMES
        for run in STALLS
    ],
)
def test_unit_equals_golden(params, stall, cases):
    """And has the latency and the interval that its parameters state."""
    trace = simulate(params, dut=unit(params), cases=cases, stall=stall, patient=stall == 0.3)
    if not stall:
        require_interval(params, trace)
    if stall == 0.3:
        alone = simulate(params, dut=unit(params), cases=12, one_at_a_time=True)
        assert measured_latency(params, alone) == params.timing.latency


@pytest.mark.parametrize(
    "latency", [1, *(pytest.param(n, marks=pytest.mark.full) for n in (2, 3)), 7]
)
@pytest.mark.parametrize("block", [cls.block for cls in ARITH_BLOCKS])
def test_any_latency_gives_the_same_results(block, latency):
    params = BLOCKS[block].preset(latency=latency)
    dut = Prepared(build(params))
    trace = simulate(params, dut=dut, cases=12, one_at_a_time=True)
    assert measured_latency(params, trace) == latency
    require_interval(params, simulate(params, dut=dut, cases=40))
