"""The Xeon: limits, orders and refusals that hold whatever the constants are."""

from itertools import pairwise
from math import exp
from random import Random

import pytest

from tilewright.sim.calibration import constant
from tilewright.sim.scheme import PAPER_SCHEMES, resolve_weight_scheme
from tilewright.sim.workload import Gemm
from tilewright.sim.xeon import ENGINES, SYSTEMS, far_share, gemm, tile_cost, vector_operations

HBM, DDR = SYSTEMS["spr-hbm"], SYSTEMS["spr-ddr"]


@pytest.mark.parametrize("system", ["spr-ddr", "spr-hbm"])
@pytest.mark.parametrize("name", PAPER_SCHEMES)
def test_nothing_is_faster_than_the_optimum(system, name):
    scheme = resolve_weight_scheme(name)
    best = tile_cost(SYSTEMS[system], "optimal", scheme, 1).cycles
    for engine in ENGINES:
        cost = tile_cost(SYSTEMS[system], engine, scheme, 1)
        assert cost.cycles >= best * (1 - 1e-12)
        assert max(cost.utilisation.values()) <= 1 + 1e-12


def test_memory_time_is_bytes_over_bandwidth():
    cost = tile_cost(DDR, "optimal", resolve_weight_scheme("bf8"), 1)
    assert cost.cycles == pytest.approx(512 / (260e9 / (56 * 2.5e9)), rel=1e-12)
    assert cost.bound == "memory"


def test_software_counts_are_independent_of_density():
    counts = {vector_operations(resolve_weight_scheme(f"bf8_{d}%")) for d in (50, 20, 5)}
    assert counts == {constant("vector_ops_8bit") + constant("vector_ops_sparse")}
    assert vector_operations(resolve_weight_scheme("bf16")) == 0


def test_fewer_cores_have_more_bandwidth_each():
    scheme = resolve_weight_scheme("bf8")
    cycles = [tile_cost(DDR, "deca", scheme, 4, cores=n).cycles for n in (8, 16, 32, 56)]
    assert all(a < b for a, b in pairwise(cycles))
    with pytest.raises(ValueError, match=r"^cores must be 1..56, not 57$"):
        tile_cost(DDR, "deca", scheme, 4, cores=57)


@pytest.mark.parametrize("engine", ["software", "deca"])
@pytest.mark.parametrize("inner", [8192, 28672])
def test_more_rows_take_no_less_time(engine, inner):
    """Where activations begin to leave the L2, one more row takes a sixth of the rate at most."""
    scheme = resolve_weight_scheme("bf8_5%")
    times = [tile_cost(HBM, engine, scheme, n, inner=inner).cycles for n in range(1, 513)]
    assert times == sorted(times)
    drops = [1 - (n + 1) / n * a / b for n, (a, b) in enumerate(pairwise(times), 1)]
    assert max(drops) < 1 / 6


def test_long_prompts_come_near_the_peak():
    """Two by two tile registers and one operand in the L1: two thirds of the matrix unit."""
    for engine in ("software", "deca"):
        cost = tile_cost(HBM, engine, resolve_weight_scheme("mxfp4"), 4096, inner=8192)
        assert 0.6 < cost.utilisation["matrix"] < 0.75
        assert cost.bound == "llc"
        assert sum(cost.utilisation[name] for name in ("l2", "llc")) == pytest.approx(1)


@pytest.mark.parametrize(("size", "share"), [(0.5, 0), (1, 0), (1.1, 0.1761), (2, 0.7968)])
def test_misses_of_a_loop_over_a_cache(size, share):
    assert far_share(size) == pytest.approx(share, abs=1e-4)
    assert far_share(size) == pytest.approx(1 - exp(-size * far_share(size)), abs=1e-6)


def test_misses_are_those_of_a_cache_that_replaces_at_random():
    lines, size = 400, 1.5
    rng, cache, missed = Random(1), list(range(-400, 0)), 0
    held, turns = set(cache), 60
    for turn in range(turns):
        for line in range(int(size * lines)):
            if line in held:
                continue
            missed += turn >= turns // 2
            place = rng.randrange(lines)
            held.remove(cache[place])
            cache[place] = line
            held.add(line)
    found = missed / (turns // 2 * size * lines)
    assert found == pytest.approx(far_share(size), abs=0.02)


def test_a_product_ends_with_its_slowest_core():
    scheme = resolve_weight_scheme("bf8")
    small, large = (
        gemm(HBM, "deca", scheme, Gemm(name="x", module="o", rows=1, inner=32, outer=16 * n))
        for n in (1, 56)
    )
    assert small.seconds == large.seconds
