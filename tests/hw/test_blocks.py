"""Every block of the catalogue, every preset, in Amaranth's simulator."""

import pytest

from golden.params.resolve import BLOCKS
from tests.support.drive import measured_latency, require_interval, simulate

PRESETS = [
    pytest.param(cls.preset(name), id=f"{block}:{name}")
    for block, cls in BLOCKS.items()
    for name in cls.PRESETS
]


@pytest.mark.parametrize("stall", [0.0, 0.3, 0.8])
@pytest.mark.parametrize("params", PRESETS)
def test_block_equals_golden(params, stall):
    trace = simulate(params, cases=100, stall=stall)
    if not stall:
        require_interval(params, trace)


@pytest.mark.parametrize("params", PRESETS)
def test_latency_is_as_stated(params):
    trace = simulate(params, cases=12, one_at_a_time=True)
    assert measured_latency(params, trace) == params.timing.latency
