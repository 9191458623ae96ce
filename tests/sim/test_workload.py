"""Products of a model counted once more by hand, and tables of products."""

import pytest

from tilewright.sim.models import resolve_model
from tilewright.sim.workload import Gemm, attention, decode, linear, prefill, read_csv, total_macs


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


def test_prefill_of_one_token_is_decode_of_one():
    model = resolve_model("opt-125m")
    assert prefill(model, 4, 1) == decode(model, 4, 1)


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
    ],
)
def test_absurd_sizes_are_refused(batch, context, message):
    with pytest.raises(ValueError, match=f"^{message}$"):
        decode(resolve_model("opt-125m"), batch, context)


def test_a_product_refuses_a_size_of_zero():
    with pytest.raises(ValueError, match=r"^p: inner must be 1..2147483648, not 0$"):
        Gemm(name="p", module="other", rows=1, inner=0, outer=1)


def test_a_table_of_products(tmp_path):
    path = tmp_path / "shapes.csv"
    path.write_text("name,rows,inner,outer,count\na,1,2,3,4\nb,5,6,7,\n")
    first, second = read_csv(path)
    assert (first.name, first.macs) == ("a", 24)
    assert (second.rows, second.inner, second.outer, second.count) == (5, 6, 7, 1)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("name,rows,inner\na,1,2\n", "no column outer; its first line names name, rows, inner"),
        ("name,rows,inner,outer\n", "has no rows"),
        ("name,rows,inner,outer\na,1,x,3\n", "line 2: inner must be a number, not 'x'"),
        ("name,rows,inner,outer\na,1,-2,3\n", "line 2: inner must be a number, not '-2'"),
        ("name,rows,inner,outer\na,1\n", "line 2: inner must be a number, not ''"),
        ("name,rows,inner,outer\na,1,2\N{SUPERSCRIPT TWO},3\n", "line 2: inner must be a number"),
        (f"name,rows,inner,outer\na,1,{'9' * 5000},3\n", "line 2: inner must be a number"),
        ("name,rows,inner,outer\n,1,2,3\n", "line 2: the name is empty"),
        ("", "is empty; its first line names columns: name, rows, inner, outer"),
        ("name,rows,inner,outer\na,0,2,3\n", "rows must be 1"),
    ],
)
def test_a_malformed_table_is_refused(tmp_path, text, message):
    path = tmp_path / "shapes.csv"
    path.write_text(text)
    with pytest.raises(ValueError, match=message):
        read_csv(path)


def test_a_table_that_is_no_text_is_refused(tmp_path):
    path = tmp_path / "shapes.csv"
    path.write_bytes(b"\xff\xfe\x00")
    with pytest.raises(ValueError, match="is not a CSV table"):
        read_csv(path)
