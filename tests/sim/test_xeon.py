"""The Xeon: limits, orders and refusals that hold whatever the constants are."""

from itertools import pairwise

import numpy as np
import pytest

from tilewright.sim.calibration import constant
from tilewright.sim.models import resolve_model
from tilewright.sim.scheme import PAPER_SCHEMES, resolve_weight_scheme
from tilewright.sim.workload import Gemm, attention, total_macs
from tilewright.sim.xeon import (
    ENGINES,
    SYSTEMS,
    first_token,
    gemm,
    tile_cost,
    token,
    vector_operations,
)

HBM, DDR = SYSTEMS["spr-hbm"], SYSTEMS["spr-ddr"]


@pytest.mark.parametrize("system", SYSTEMS)
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


def test_uncompressed_weights_need_no_engine():
    plain = resolve_weight_scheme("bf16")
    costs = [tile_cost(HBM, engine, plain, 1).cycles for engine in ("software", "deca")]
    assert costs[0] == costs[1]


def test_a_product_ends_with_its_slowest_core():
    scheme = resolve_weight_scheme("bf8")
    small, large = (
        gemm(HBM, "deca", scheme, Gemm(name="x", module="o", rows=1, inner=32, outer=16 * n))
        for n in (1, 56)
    )
    assert small.seconds == large.seconds


def test_a_step_is_the_sum_of_its_parts():
    model, scheme = resolve_model("llama-2-70b"), resolve_weight_scheme("mxfp4")
    time = token(HBM, "deca", scheme, model, 4, 512)
    assert time.seconds == time.gemm_seconds + time.head.seconds + time.rest
    assert len(time.products) == 7


def test_the_rest_grows_with_batch_and_context_and_no_scheme_touches_it():
    model = resolve_model("opt-66b")
    plain, packed = (resolve_weight_scheme(name) for name in ("bf16", "mxfp4"))
    rest = [
        token(HBM, "software", plain, model, batch, context).rest
        for batch, context in ((1, 128), (1, 256), (2, 256), (64, 2048))
    ]
    assert all(a < b for a, b in pairwise(rest))
    assert token(HBM, "deca", packed, model, 2, 256).rest == rest[2]


def test_a_prompt_takes_longer_than_a_token():
    model, scheme = resolve_model("llama-2-7b"), resolve_weight_scheme("mxfp4")
    one = token(HBM, "deca", scheme, model, 1, 512)
    assert first_token(HBM, "deca", scheme, model, 1, 512).seconds > one.seconds


def test_attention_of_a_prompt_is_matrix_products():
    """Four times the work for twice the tokens, at no more than the peak of the matrix units."""
    scheme, model = resolve_weight_scheme("mxfp4"), resolve_model("llama-2-7b")
    rests = [first_token(HBM, "deca", scheme, model, 1, 8192 << k).rest for k in range(3)]
    first, second = np.diff(rests)
    assert 3.5 < second / first < 4.1
    macs = total_macs(attention(model, 1, 32768, 32768)) / 2
    assert 0.1 < macs / rests[2] / (HBM.cores * HBM.clock * 512) < 1
