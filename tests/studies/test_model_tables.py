"""The records of models of other families and of a GPU: what pages say about them holds."""

import pytest

from tests.docs.pages import ROOT
from tilewright.studies.accuracy.model_tables import (
    conversion_rows,
    gpu_record,
    model_name,
    model_records,
    perplexity_rows,
    sizes_text,
    task_rows,
    time_rows,
)
from tilewright.studies.accuracy.tables import TORCH_PAGE, gpu_tables, with_tables

DIGESTS = {  # sha256 of the files, joined from the packages' parts
    "gemma-3-270m": "a5fd3b62230aa5ec60212297dc9d20eaa70578ac519e00d93a17e44c087a6818",
    "qwen2.5-coder-1.5b": "cc324af070c2ecbfd324a30884d2f951a7ff756aba85cb811a6ec436933bb046",
}


def record(parameters, **changes):
    """A record with changes of perplexity by format."""
    rows = [{"format": "plain", "perplexity": 20.0, "change": 0.0}]
    rows += [{"format": n, "perplexity": 20 * (1 + c), "change": c} for n, c in changes.items()]
    perplexity = {"tokens": 1024, "window": 512, "perplexities": rows}
    perplexity["noise_floor"] = [{"format": "plain", "change": 0.0003}]
    return {"model": {"parameters": parameters}, "perplexity": perplexity}


def test_rows_of_models():
    records = {"gemma-3-270m": record(2, a=0.1), "x": record(3, a=-0.2, b=1.0)}
    assert perplexity_rows(records) == [
        ["plain, perplexity", "20.00", "20.00"],
        ["a", "+10.0%", "-20.0%"],
        ["b", "", "+100.0%"],
        ["noise floor, plain", "0.03%", "0.03%"],
    ]
    assert sizes_text(records) == "Gemma 3 270M 1024, x 1024 tokens, windows of 512"
    assert model_name("x") == "x"


def test_rows_of_tasks():
    row = {"task": "piqa", "questions": 10, "accuracy": 0.7, "low": 0.4, "high": 0.892}
    records = {"x": {"tasks": [row | {"format": "plain"}, row | {"format": "a", "accuracy": 0.6}]}}
    assert task_rows(records) == [
        ["x", "piqa", "10", "70% (40% to 89%)", "60% (40% to 89%)"],
    ]
    assert task_rows({"x": {}}) == []


def test_committed_models_are_the_files_of_the_packages():
    found = model_records()
    assert found
    for name, digest in DIGESTS.items():
        assert name not in found or found[name]["model"]["digest"] == digest


def test_gemma_shows_what_the_page_says():
    rows = model_records()["gemma-3-270m"]["perplexity"]["perplexities"]
    change = {row["format"]: row["change"] for row in rows}
    assert abs(change["Anda 8/8/8/8"]) < 0.001
    assert 0.05 < change["Anda 6/6/6/6"] < 0.15
    assert change["Anda 4/4/4/4"] > 3
    bare, windows, offsets = (
        change[f"Harmonia, {name}"] for name in ("4-bit cache", "windows", "windows, offsets")
    )
    assert 0.2 < bare < 0.3
    assert windows < bare / 3
    assert offsets < windows * 0.7


def test_gpu_record_has_the_golden_bits_and_keeps_the_limits():
    record = gpu_record()
    random = record["bits"][-1]
    assert (random["groups"], random["differ"]) == (10_000_000, 0)
    assert [row["differ"] for row in record["bits"]] == [0] * len(record["bits"])
    for found in record["perplexities"]:
        assert all(row["times_plain"] < 1.5 for row in found["times"])
    for row in record["conversions"]:  # of the bandwidth that the vendor states
        assert row["share_of_peak"] > 0.7 or "plain PyTorch" in row["conversion"]
    assert len(conversion_rows(record)) == len(record["conversions"])
    assert len(time_rows(record)) == sum(len(found["times"]) for found in record["perplexities"])


def test_tables_of_the_page_on_pytorch():
    text = (ROOT / "docs" / "torch.md").read_text()
    assert TORCH_PAGE.read_text() == text
    assert with_tables(text, gpu_tables()) == text, (
        "run python -m tilewright.studies.accuracy.tables"
    )
    with pytest.raises(ValueError, match=r"^no place for the table conversions$"):
        with_tables("words", gpu_tables())
