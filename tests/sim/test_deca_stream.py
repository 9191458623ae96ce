"""Rates of a core with a DECA: limits that hold whatever the constants are, and the record."""

import pytest

from tilewright.golden.params.deca import DecaParams
from tilewright.sim.calibration import changed
from tilewright.sim.deca_stream import Integration, tile_rate
from tilewright.sim.scheme import resolve_weight_scheme
from tilewright.sim.xeon import SYSTEMS, deca_cycles

PAPER = DecaParams()
MUCH = 64.0  # bytes a cycle


def rate(scheme, share=MUCH, matrix=16, **how):
    return tile_rate(
        PAPER,
        resolve_weight_scheme(scheme),
        bytes_per_cycle=share,
        matrix_cycles=matrix,
        integration=Integration(**how),
    )


@pytest.mark.parametrize("scheme", ["bf8_50%", "mxfp4"])
def test_nothing_is_faster_than_its_slowest_part(scheme):
    found = resolve_weight_scheme(scheme)
    bytes_per_cycle = SYSTEMS["spr-hbm"].bytes_per_cycle(56)
    least = max(deca_cycles(PAPER, found), 16, found.tile_bytes / bytes_per_cycle)
    assert rate(scheme, bytes_per_cycle).cycles > 0.99 * least


def test_a_slow_matrix_unit_is_the_rate():
    assert rate("bf8_20%", matrix=200).cycles == 200


def test_without_prefetches_every_line_misses_and_the_latency_shows():
    found = rate("mxfp4", prefetch="none")
    assert found.missed > 0.99
    with changed("memory_latency", 2.0):
        assert rate("mxfp4", prefetch="none").cycles > 1.5 * found.cycles


def test_stores_and_fences_expose_what_tepls_hide():
    by_tepl, by_store = (rate("bf8_5%", degree=15, tepl=tepl).cycles for tepl in (True, False))
    # A store, its answer, a load and its rows are in the way of each other, and of the product.
    assert by_store >= 16 + 16 + 4 * 3
    assert by_tepl < by_store / 1.5
    assert rate("bf8_5%", degree=15, tepl=False, tout=False).cycles > by_store


def test_the_degree_is_one_of_the_hardware():
    with pytest.raises(ValueError, match=r"^degree must be 0..15, not 16$"):
        Integration(degree=16)
