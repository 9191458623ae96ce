"""The core's model against closed forms of the cases where one thing alone limits."""

import pytest

from tilewright.sim.calibration import changed, constant
from tilewright.sim.core import CoreModel, simulate

EASY = CoreModel(tile_bytes=64, tile_cycles=1, matrix_cycles=1, bytes_per_cycle=1000)


def near(value):
    return pytest.approx(value, rel=1e-9)


def test_memory_alone():
    core = EASY.but(tile_bytes=512, bytes_per_cycle=4.0, degree=15)
    assert simulate(core).cycles == near(128)


def test_the_vector_pipeline_alone():
    assert simulate(EASY.but(tile_cycles=200)).cycles == near(200)


def test_the_matrix_unit_alone():
    assert simulate(EASY.but(matrix_cycles=300)).cycles == near(300)


def test_two_loaders_share_the_way_of_a_tile():
    """Half of: command, L2, pipeline, way back."""
    trip = 2 * constant("core_deca_latency") + constant("l2_latency") + 16 + 3
    assert simulate(EASY.but(tile_cycles=16)).cycles == near(trip / 2)
    assert simulate(EASY.but(tile_cycles=16, loaders=1)).cycles == near(trip)


def test_without_prefetch_every_tile_waits_for_memory():
    core = EASY.but(tile_cycles=16, prefetch="none", tile_bytes=1000, bytes_per_cycle=100)
    trip = 2 * constant("core_deca_latency") + constant("l2_latency") + 16 + 3
    trip += constant("memory_latency") + 10
    found = simulate(core)
    assert found.cycles == near(trip / 2)
    assert found.missed == 1.0


def test_the_l2_prefetcher_trains_in_every_page():
    core = EASY.but(tile_bytes=272, tile_cycles=16, matrix_cycles=16, bytes_per_cycle=6)
    assert simulate(core.but(prefetch="l2")).missed == pytest.approx(2 / 15, abs=0.01)


def test_deeper_prefetches_help_until_buffers_run_out():
    core = EASY.but(tile_bytes=272, tile_cycles=16, matrix_cycles=16, bytes_per_cycle=5.8)
    cycles = {degree: simulate(core.but(degree=degree)).cycles for degree in (1, 2, 5, 15)}
    assert cycles[1] > cycles[2] >= cycles[5]
    assert cycles[15] > cycles[5]
    with changed("prefetch_lines", 10):
        assert simulate(core.but(degree=15)).cycles == near(272 / 5.8)


def test_stores_and_fences_expose_what_tepl_hides():
    core = EASY.but(tile_cycles=16, matrix_cycles=16)
    by_store = simulate(core.but(tepl=False)).cycles
    # Fence, load of sixteen rows and product follow each other; a store starts the next tile.
    path = constant("core_deca_latency")
    serial = 2 * path + constant("tile_load_cycles") + constant("store_cycles") + 16
    assert by_store == near(serial)
    assert simulate(core).cycles < by_store / 1.5
    assert simulate(core.but(tepl=False, tout=False)).cycles > by_store


def test_the_llc_is_farther_than_the_l2():
    core = EASY.but(tepl=False, prefetch="none", tile_cycles=64)
    assert simulate(core.but(through_l2=False)).cycles > simulate(core).cycles


def test_a_queue_of_one_entry_serialises():
    core = EASY.but(tile_cycles=16, matrix_cycles=16)
    assert simulate(core.but(queue=1)).cycles > 2 * simulate(core).cycles


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"tile_bytes": 0}, "tile_bytes must be above 0, not 0"),
        ({"bytes_per_cycle": -1}, "bytes_per_cycle must be above 0, not -1"),
        ({"degree": 16}, "degree must be 0..15, not 16"),
    ],
)
def test_refusals(change, message):
    with pytest.raises(ValueError, match=f"^{message}$"):
        EASY.but(**change)
