"""Products of a model counted once more by hand."""

import pytest

from tilewright.sim.models import resolve_model
from tilewright.sim.workload import (
    Batch,
    Gemm,
    Pass,
    attention,
    linear,
    prefill,
    total_macs,
    work,
)


def test_projections_read_every_weight_once():
    for name in ("opt-6.7b", "llama-2-70b", "llama-3.2-1b"):
        model = resolve_model(name)
        assert sum(p.matrix for p in linear(model, 1)) == model.linear_weights


def test_a_layer_of_llama_2_70b():
    products = {p.name: p for p in linear(resolve_model("llama-2-70b"), 5)}
    assert [(n, p.inner, p.outer) for n, p in products.items()] == [
        ("q", 8192, 8192),
        ("k", 8192, 1024),
        ("v", 8192, 1024),
        ("o", 8192, 8192),
        ("gate", 8192, 28672),
        ("up", 8192, 28672),
        ("down", 28672, 8192),
    ]
    assert {(p.rows, p.count) for p in products.values()} == {(5, 80)}


def test_attention_counts_every_query_and_key():
    model = resolve_model("llama-2-70b")
    # 80 layers, 64 heads of 128, twice: scores and values.
    assert total_macs(attention(model, 3, 1, 100)) == 3 * 80 * 64 * 128 * 100 * 2
    assert total_macs(attention(model, 2, 100, 100)) == 2 * 80 * 64 * 128 * 100 * 100 * 2


def test_experts_are_read_once_and_used_k_times():
    model = resolve_model("mixtral-8x7b")
    one = 3 * 4096 * 14336  # weights of one expert
    for tokens in (1, 2, 7, 100):
        chosen = [p for p in linear(model, tokens) if p.name.startswith("expert")]
        assert total_macs(chosen) == pytest.approx(32 * tokens * 2 * one)
        distinct = 8 * (1 - (1 - 2 / 8) ** tokens)
        assert sum(p.matrix for p in chosen) == pytest.approx(32 * distinct * one)
    # A long prompt reads every weight, routers apart, once.
    every = [p for p in linear(model, 10**6) if p.module != "router"]
    assert sum(p.matrix for p in every) == pytest.approx(model.linear_weights)


def test_a_layer_of_deepseek_v3():
    products = {p.name: p for p in linear(resolve_model("deepseek-v3"), 1)}
    shapes = {name: (p.inner, p.outer, p.count) for name, p in products.items()}
    assert shapes == {
        "q_down": (7168, 1536, 61),
        "q": (1536, 128 * 192, 61),
        "kv_down": (7168, 576, 61),
        "kv": (512, 128 * 256, 61),
        "o": (128 * 128, 7168, 61),
        "gate": (7168, 18432, 3),
        "up": (7168, 18432, 3),
        "down": (18432, 7168, 3),
        "router": (7168, 256, 58),
        "expert gate": (7168, 2048, 58 * 8),
        "expert up": (7168, 2048, 58 * 8),
        "expert down": (2048, 7168, 58 * 8),
        "shared gate": (7168, 2048, 58),
        "shared up": (7168, 2048, 58),
        "shared down": (2048, 7168, 58),
    }


def test_a_layer_of_linear_attention():
    model = resolve_model("qwen3-next-80b-a3b")
    shapes = {p.name: (p.inner, p.outer, p.count) for p in linear(model, 1)}
    assert shapes["q"] == (2048, 2 * 16 * 256, 12)  # with the gates of what attention gives
    assert shapes["delta qkvz"] == (2048, 2 * 16 * 128 + 2 * 32 * 128 + 2 * 32, 36)
    assert shapes["delta o"] == (32 * 128, 2048, 36)
    (state,) = (p for p in attention(model, 3, 5, 100) if p.name == "state")
    # For each token, its key reads and changes 32 matrices of 128 by 128, its query reads them.
    assert state.macs == 3 * 5 * 36 * 3 * 32 * 128 * 128


def test_latent_attention_of_a_token_and_of_a_prompt():
    model = resolve_model("deepseek-v3")
    scores, values = attention(model, 3, 1, 1000)  # all heads meet the cached vectors
    assert (scores.rows, scores.inner, scores.outer, scores.count) == (128, 576, 1000, 3 * 61)
    assert (values.rows, values.inner, values.outer, values.count) == (128, 1000, 512, 3 * 61)
    scores, values = attention(model, 3, 1000, 1000)  # keys and values of every head
    assert (scores.rows, scores.inner, scores.outer) == (1000, 192, 1000)
    assert (values.rows, values.outer, values.count) == (1000, 128, 3 * 61 * 128)


def test_attention_with_windows_meets_no_more_than_they_hold():
    model = resolve_model("gemma-2-2b")  # 13 of 26 layers look back 4096 tokens; 8 heads of 256
    pair = 2 * 8 * 256
    assert total_macs(attention(model, 1, 1, 4096)) == 26 * 4096 * pair
    assert total_macs(attention(model, 1, 1, 8192)) == 13 * (8192 + 4096) * pair
    assert total_macs(attention(model, 1, 8192, 8192)) == 13 * 8192 * (8192 + 4096) * pair


def test_a_batch_of_several_contexts_is_the_sum_of_its_parts():
    model = resolve_model("llama-3.2-1b")
    mixed = work(model, Pass(Batch(((3, 100), (1, 5000)))))
    assert total_macs([p for p in mixed if p.module == "attention"]) == total_macs(
        [*attention(model, 3, 1, 100), *attention(model, 1, 1, 5000)]
    )
    assert {p.rows for p in mixed if p.module != "attention"} == {4}
    prompts = work(model, Pass(Batch(((3, 100), (1, 5000))), None))
    assert {p.rows for p in prompts if p.module == "qkv"} == {5300}
    assert prompts[-1].rows == 4
    assert Batch(((3, 100), (1, 5000))).longer(2) == Batch(((3, 102), (1, 5002)))


def test_prefill_of_one_token_is_decode_of_one():
    model = resolve_model("opt-125m")
    assert prefill(model, 4, 1) == work(model, Pass(Batch(((4, 1),))))


def test_the_head_works_for_the_last_token_alone():
    head = prefill(resolve_model("opt-350m"), 2, 64)[-1]
    assert (head.rows, head.inner, head.outer) == (2, 512, 50272)


@pytest.mark.parametrize(
    ("batch", "context", "message"),
    [
        (0, 1, "batch must be 1..65536, not 0"),
        (-1, 1, "batch must be 1..65536, not -1"),
        (1, 0, "context must be 1..16777216 tokens, not 0"),
        (1, 1 << 30, "context must be 1..16777216 tokens, not 1073741824"),
        (
            *(65536, 16777216),
            "a batch of 65536 sequences with 1099511627776 tokens in all is beyond 65536 sequences"
            " or 1073741824 tokens",
        ),
    ],
)
def test_absurd_sizes_are_refused(batch, context, message):
    with pytest.raises(ValueError, match=f"^{message}$"):
        prefill(resolve_model("opt-125m"), batch, context)


def test_a_product_refuses_a_size_of_zero():
    with pytest.raises(ValueError, match=r"^p: inner must be 1..2147483648, not 0$"):
        Gemm(name="p", module="other", rows=1, inner=0, outer=1)


@pytest.mark.parametrize("rows", [1, 1 << 31])
def test_a_product_that_no_model_has_is_refused(rows):
    with pytest.raises(ValueError, match=r"is larger than any product of a model$"):
        Gemm(name="p", module="other", rows=rows, inner=1 << 31, outer=1 << 31)


def test_an_empty_batch_is_refused():
    with pytest.raises(ValueError, match=r"^a batch has at least one sequence$"):
        Batch(())
