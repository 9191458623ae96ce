"""Models on several devices: what is divided adds up again, and what passes between them counts."""

import pytest

from tilewright.sim.gemm import gemm_results
from tilewright.sim.llm import answer
from tilewright.sim.models import resolve_model
from tilewright.sim.parallel import Parallel, micro_batch, shard
from tilewright.sim.target import resolve_target
from tilewright.sim.workload import Batch, Gemm

LLAMA = resolve_model("llama-3.1-8b")
MODELS = ("llama-2-70b", "mixtral-8x7b", "deepseek-v2-lite", "gemma-2-9b")
NEARLY_FREE = {"link_bandwidth": "100TB/s", "link_latency": "0us"}


@pytest.mark.parametrize("tensor", [1, 2, 4])
@pytest.mark.parametrize("name", MODELS)
def test_shards_add_up_to_the_model(name, tensor):
    model = resolve_model(name)
    mine = shard(model, Parallel(tensor=tensor))
    if model.latent is None:
        assert mine.linear_weights * tensor == model.linear_weights
    else:  # every device makes the cached vector itself
        more = mine.linear_weights * tensor / model.linear_weights - 1
        assert 0 <= more < 0.01 and (more > 0) == (tensor > 1)
    assert mine.hidden_size == model.hidden_size
    assert tensor - 1 >= mine.head_weights * tensor - model.head_weights >= 0


def test_stages_have_the_layers():
    mine = shard(resolve_model("deepseek-v2-lite"), Parallel(pipeline=4))
    assert (mine.num_hidden_layers, mine.experts.layers) == (7, 7)  # of 27 and 26


@pytest.mark.parametrize(
    ("parallel", "message"),
    [
        ({"tensor": 3}, "32 heads with 8 key-value heads of llama-3.1-8b do not divide among 3"),
        ({"pipeline": 33}, "llama-3.1-8b has 32 layers, fewer than 33 groups of devices"),
        ({"tensor": 0}, "tensor must be 1..4096, not 0"),
    ],
)
def test_what_does_not_divide_is_refused(parallel, message):
    with pytest.raises(ValueError, match=f"^{message}"):
        answer(LLAMA, **parallel)


def test_heads_that_are_fewer_than_devices_are_kept_more_than_once():
    alone, many = (answer(LLAMA, tensor=t).memory_bytes.cache for t in (8, 16))
    assert many == 2 * alone


def test_a_ring_moves_what_it_must():
    ring = Parallel(tensor=4, link_bandwidth=1e9, link_latency=1e-6)
    assert ring.all_reduce(1e6) == pytest.approx(2 * 3 / 4 * 2e6 / 1e9 + 6e-6)
    assert ring.all_gather(1e6) == pytest.approx(3 / 4 * 2e6 / 1e9 + 3e-6)
    assert Parallel(tensor=4).hop(1e6) == 0
    assert Parallel(pipeline=2, link_bandwidth=1e9, link_latency=1e-6).hop(1e6) == 2.001e-3


@pytest.mark.parametrize("system", ["spr-ddr", "harmonia"])
@pytest.mark.parametrize("phase", ["decode", "prefill"])
def test_devices_that_share_layers_halve_what_grows_with_weights(system, phase):
    model = resolve_model("llama-2-13b")
    one, two = (
        answer(
            model,
            system,
            context=64,
            tensor=t,
            phase=phase,
            settings=NEARLY_FREE if t > 1 else None,
        )
        for t in (1, 2)
    )
    # Head and feed-forward part begin with a norm, which both devices compute.
    products = ("gate", "down") if system == "spr-ddr" else ("feed-forward",)
    for name, near in (*((name, 0.05) for name in products), ("head", 0.1)):
        assert two.ms_by_part[name] == pytest.approx(one.ms_by_part[name] / 2, rel=near)
    assert two.ms_by_part["link"] < 1e-3 * two.latency_ms
    assert sum(two.ms_by_part.values()) == pytest.approx(two.latency_ms)
    assert two.memory_bytes.weights == pytest.approx(one.memory_bytes.weights, rel=1e-3)
    assert two.memory_bytes.cache == pytest.approx(one.memory_bytes.cache)
    assert two.memory_bytes.capacity == 2 * one.memory_bytes.capacity


def test_slow_links_bound_a_step():
    fast, slow = (
        answer(LLAMA, tensor=4, batch=64, settings={"link_bandwidth": b})
        for b in ("100GB/s", "100MB/s")
    )
    # 64 layers' sums of 64 x 4096 values, six quarters of them over a link each; and the logits.
    moved = 64 * 1.5 * 64 * 4096 * 2 + 0.75 * 64 * 128256 * 2
    more = moved / 1e8 - moved / 1e11
    assert (slow.latency_ms - fast.latency_ms) / 1e3 == pytest.approx(more)
    assert (slow.bound, fast.bound != "link") == ("link", True)


@pytest.mark.parametrize("system", ["spr-ddr", "harmonia"])
def test_a_pipeline_shortens_no_token_but_serves_more_sequences(system):
    def step(**parallel):
        return answer(LLAMA, system, context=64, **parallel)

    alone, alone_too = step(batch=1), step(batch=1, pipeline=4, settings=NEARLY_FREE)
    # Each group of layers of an accelerator is a program of its own.
    assert alone_too.latency_ms == pytest.approx(alone.latency_ms, rel=2e-3)
    four = step(batch=4, pipeline=4, settings=NEARLY_FREE)
    # Each of the four sequences is in another group; the last group also has the head.
    assert alone.latency_ms <= four.latency_ms < 1.6 * alone.latency_ms
    assert sum(four.ms_by_part.values()) == pytest.approx(four.latency_ms)


def test_prompts_fill_and_drain_a_pipeline():
    one = answer(LLAMA, phase="prefill", batch=1, context=512)
    many = answer(LLAMA, phase="prefill", batch=4, context=512, pipeline=4, settings=NEARLY_FREE)
    assert many.ms_by_part["waiting for other groups"] == pytest.approx(
        3 / 4 * one.latency_ms, rel=0.1
    )


def test_energy_and_area_are_those_of_all_devices():
    one, two = answer(LLAMA), answer(LLAMA, tensor=2)
    assert 1 < two.average_watts / one.average_watts < 2.1
    per_area = two.tokens_per_second / two.tokens_per_second_per_mm2
    assert per_area == pytest.approx(2 * one.tokens_per_second / one.tokens_per_second_per_mm2)


def test_what_fits_is_what_fits_in_every_device():
    model = resolve_model("llama-2-70b")
    assert not answer(model, "harmonia").memory_bytes.fits
    assert answer(model, "harmonia", tensor=4).memory_bytes.fits


def test_micro_batches_are_dealt_out():
    batch = Batch(((3, 10), (2, 100), (4, 7)))
    assert micro_batch(batch, 2) == Batch(((1, 100), (2, 10), (2, 7)))
    assert micro_batch(batch, 9) == Batch(((1, 100),))
    assert micro_batch(batch, 1).sequences == 9


def test_sockets_are_a_field_of_a_server():
    two = answer(LLAMA, settings={"sockets": "2"})
    assert two == answer(LLAMA, tensor=2)
    with pytest.raises(ValueError, match=r"^spr-hbm has 2 sockets .* leave tensor out$"):
        answer(LLAMA, settings={"sockets": "2"}, tensor=4)


def test_links_without_devices_and_gemms_on_several_are_refused():
    with pytest.raises(ValueError, match=r"^link_latency is between devices; say with tensor"):
        answer(LLAMA, settings={"link_latency": "2us"})
    product = [Gemm(name="x", module="o", rows=1, inner=64, outer=64)]
    with pytest.raises(ValueError, match=r"^a GEMM is that of one device, not 2$"):
        gemm_results(product, resolve_target(tensor=2))
