"""Every unit of the catalogue, every preset, in Amaranth's simulator.

A unit is a component whose ports are streams (``hw.unit.Unit``); systems have suites of their own.
"""

from importlib import import_module

import pytest

from golden.params.resolve import BLOCKS
from hw.catalog import CATALOG
from hw.unit import Unit
from tests.support.drive import measured_latency, require_interval, simulate


def is_unit(place: str) -> bool:
    module, _, name = place.partition(":")
    return issubclass(getattr(import_module(module), name), Unit)


PRESETS = [
    pytest.param(BLOCKS[block].preset(name), id=f"{block}:{name}")
    for block, place in CATALOG.items()
    if is_unit(place)
    for name in BLOCKS[block].PRESETS
]


# Cases fall as stalls stretch the run: each takes a few hundred cycles.
@pytest.mark.parametrize(("stall", "cases"), [(0.0, 200), (0.3, 100), (0.8, 30)])
@pytest.mark.parametrize("params", PRESETS)
def test_unit_equals_golden(params, stall, cases):
    trace = simulate(params, cases=cases, stall=stall, patient=stall == 0.3)
    if not stall:
        require_interval(params, trace)


@pytest.mark.parametrize("params", PRESETS)
def test_latency_is_as_stated(params):
    trace = simulate(params, cases=12, one_at_a_time=True)
    assert measured_latency(params, trace) == params.timing.latency
