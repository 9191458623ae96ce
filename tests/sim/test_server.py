"""Steps on a Xeon: sums, limits and orders that hold whatever the constants are."""

from itertools import pairwise

import numpy as np
import pytest

from tilewright.sim import xeon
from tilewright.sim.calibration import constant
from tilewright.sim.models import resolve_model
from tilewright.sim.scheme import KV_FORMATS, cache_bytes, resolve_kv_format, resolve_weight_scheme
from tilewright.sim.server import run_steps
from tilewright.sim.workload import Batch, Pass, attention, total_macs

HBM = xeon.SYSTEMS["spr-hbm"]
MXFP4 = resolve_weight_scheme("mxfp4")
BF16 = KV_FORMATS["bf16"]


def run_step(machine, engine, scheme, model, batch, *, new=1, kv=BF16):
    """One step, whose columns have one entry."""
    found = run_steps(machine, engine, scheme, model, [Pass(batch, new)], kv=kv)
    assert len(found.seconds) == 1
    return found


def step(name, batch, *, new=1, kv=BF16, engine="deca"):
    return run_step(HBM, engine, MXFP4, resolve_model(name), Batch(batch), new=new, kv=kv)


def test_a_step_is_the_sum_of_its_parts():
    model, scheme = resolve_model("llama-2-70b"), resolve_weight_scheme("mxfp4")
    time = run_step(HBM, "deca", scheme, model, Batch(((4, 512),)))
    assert (
        time.seconds
        == sum(part.seconds for part in time.projections[0].products)
        + sum(part.seconds for part in time.projections[0].plain)
        + time.rest
    )
    assert len(time.projections[0].products) == 7


def test_the_rest_grows_with_batch_and_context_and_no_scheme_touches_it():
    model = resolve_model("opt-66b")
    plain, packed = (resolve_weight_scheme(name) for name in ("bf16", "mxfp4"))
    rest = [
        run_step(HBM, "software", plain, model, Batch(((batch, context),))).rest
        for batch, context in ((1, 128), (1, 256), (2, 256), (64, 2048))
    ]
    assert all(a < b for a, b in pairwise(rest))
    assert run_step(HBM, "deca", packed, model, Batch(((2, 256),))).rest == rest[2]


def test_a_prompt_takes_longer_than_a_token():
    model, scheme = resolve_model("llama-2-7b"), resolve_weight_scheme("mxfp4")
    one = run_step(HBM, "deca", scheme, model, Batch(((1, 512),)))
    assert run_step(HBM, "deca", scheme, model, Batch(((1, 512),)), new=None).seconds > one.seconds


def test_attention_of_a_prompt_is_matrix_products():
    """Four times the work for twice the tokens, at no more than the peak of the matrix units."""
    scheme, model = resolve_weight_scheme("mxfp4"), resolve_model("llama-2-7b")
    rests = [
        run_step(HBM, "deca", scheme, model, Batch(((1, 8192 << k),)), new=None).rest[0]
        for k in range(3)
    ]
    first, second = np.diff(rests)
    assert 3.5 < second / first < 4.1
    macs = total_macs(attention(model, 1, 32768, 32768)) / 2
    assert 0.1 < macs / rests[2] / (HBM.cores * HBM.clock * 512) < 1


def test_contexts_add_up():
    parts = [step("llama-3.1-8b", ((n, tokens),)) for n, tokens in ((3, 100), (1, 5000))]
    both = step("llama-3.1-8b", ((3, 100), (1, 5000)))
    assert both.attention == pytest.approx(sum(part.attention for part in parts))
    assert both.cache == pytest.approx(sum(part.cache for part in parts))
    assert both.product_seconds == step("llama-3.1-8b", ((4, 1),)).product_seconds


def test_a_window_bounds_attention_and_cache():
    near, far = (step("mistral-7b-v0.1", ((1, tokens),)) for tokens in (4096, 16384))
    assert near.seconds == far.seconds and near.cache_bytes == far.cache_bytes
    half = step("gemma-2-9b", ((1, 8192),)).attention
    assert half == pytest.approx(1.5 * step("gemma-2-9b", ((1, 4096),)).attention)


def test_prompts_meet_what_came_before_or_their_window():
    """Without a window half of the square; with a short one all of a band."""
    model = resolve_model("mistral-7b")
    whole, band = (step(n, ((1, 16384),), new=None) for n in ("mistral-7b", "mistral-7b-v0.1"))
    assert model.sliding_window is None
    # 4096 of 16384 keys, of which the first tokens see fewer: 1/4 * (1 - 1/8) against 1/2. The
    # shorter rows of the band come from the L2 a little more often.
    assert band.attention / whole.attention == pytest.approx(0.25 * 7 / 8 / 0.5, rel=1e-3)


def test_the_chosen_experts_of_a_layer_are_one_product():
    experts = resolve_model("qwen3-30b-a3b").experts
    found = {p.gemm.name: p for p in step("qwen3-30b-a3b", ((1, 100),)).projections[0].products}
    gate = found["expert gate"].gemm
    assert (gate.rows, gate.outer, gate.count) == (1, 8 * 768, experts.layers)
    assert found["expert gate"].seconds >= 48 * constant("sync_us") * 1e-6
    # 16 tokens use experts 128 times: 82.4 distinct experts, some with one token and some with two.
    gates = [p.gemm for p in step("qwen3-30b-a3b", ((16, 100),)).projections[0].products]
    gates = [g for g in gates if g.name == "expert gate"]
    assert sum(g.rows * g.outer for g in gates) == pytest.approx(128 * 768, rel=1e-4)
    assert sum(g.outer for g in gates) == pytest.approx(82.42 * 768, rel=1e-3)


def test_routers_and_head_stay_plain():
    names = [p.gemm.name for p in step("mixtral-8x7b", ((1, 100),)).projections[0].plain]
    assert names == ["router", "head"]


@pytest.mark.parametrize(
    ("name", "per_token"),
    [
        ("bf16", 2 * 128 * 2),
        ("fp8", 2 * 128),
        ("int8", 2 * (128 + 2)),
        ("int4", 2 * 128 * (4 + 0.5) / 8),
    ],
)
def test_formats_of_the_cache(name, per_token):
    model = resolve_model("llama-3.1-8b")
    bits = resolve_kv_format(name)
    assert cache_bytes(model, Batch(((2, 1000),)), bits) == 2 * 1000 * 32 * 8 * per_token


def test_harmonias_format_nears_a_third_of_bf16():
    """Harmonia paper: 3.05 at 4096 tokens."""
    model, batch = resolve_model("llama-3.1-8b"), Batch(((1, 4096),))
    plain, packed = (cache_bytes(model, batch, KV_FORMATS[n]) for n in ("bf16", "harmonia"))
    assert plain / packed == pytest.approx(3.05, abs=0.01)


def test_the_cache_of_latent_attention_and_of_windows():
    latent, window = resolve_model("deepseek-v3"), resolve_model("gemma-3-1b")
    assert cache_bytes(latent, Batch(((1, 10),)), BF16) == 61 * 10 * 576 * 2
    # 4 of 26 layers see all, the others 512; one head of 256.
    assert cache_bytes(window, Batch(((1, 4096),)), BF16) == (4 * 4096 + 22 * 512) * 512 * 2


def test_a_state_passes_twice_whatever_the_context():
    model = resolve_model("qwen3-next-80b-a3b")
    short, long = (Batch(((4, tokens),)) for tokens in (1, 1001))
    keys = 4 * 12 * 2 * 2 * 256 * 2  # bytes of a token in the 12 layers with a cache
    state = 4 * model.delta.state_bytes
    assert cache_bytes(model, short, BF16) == state + keys
    assert cache_bytes(model, long, KV_FORMATS["int8"]) > state
    time = run_steps(HBM, "deca", MXFP4, model, [Pass(short), Pass(long)])
    assert time.cache_moved.tolist() == [2 * state + keys, 2 * state + 1001 * keys]
    assert time.cache[1] - time.cache[0] == pytest.approx(
        1000 * keys / (HBM.bandwidth * HBM.rate("stream"))
    )


def test_an_unknown_format_is_refused():
    with pytest.raises(ValueError, match=r"^unknown KV format 'int9'; did you mean int"):
        resolve_kv_format("int9")
