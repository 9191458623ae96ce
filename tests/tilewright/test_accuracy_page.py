"""The committed results on the real model: they replay, and page and documentation show them."""

import re
from pathlib import Path

import pytest

import synth
from golden.llm.search import search
from sim.anda import MODULES, saving
from sim.models import Model as Shape
from tests.support.claims import claim
from tilewright.accuracy.anda import cost_of
from tilewright.accuracy.frontier import Prices
from tilewright.accuracy.records import MAKERS, load_record
from tilewright.accuracy.tables import PAGE, with_tables
from tilewright.report.page import Context
from tilewright.report.pages import accuracy

DRAWINGS = (
    *("anda-search", "accuracy-by-module", "accuracy-by-group", "accuracy-everywhere"),
    "accuracy-frontier",
)


@pytest.fixture(scope="module")
def page():
    return accuracy.build(Context(records=Path(synth.__file__).parent / "records", cases=1))


@pytest.fixture(scope="module")
def shape():
    return Shape(**load_record("search")["shape"])


@pytest.mark.parametrize("name", MAKERS)
def test_records_are_of_the_real_model(name):
    record = load_record(name)
    assert record["subject"]["model"] == "SmolLM2-135M-Instruct.Q4_1"
    assert record["subject"]["weights"] == "int4, groups of 128, scales searched"
    assert record["subject"] == load_record("search")["subject"]


@pytest.mark.parametrize("k", [0, 1])
def test_recorded_searches_replay(shape, k):
    """The algorithm on the recorded perplexities takes the recorded steps."""
    record = load_record("search")["searches"][k]
    known = {tuple(t["lengths"]): t["perplexity"] for t in record["trials"]}
    outcome = search(
        known.__getitem__,
        cost_of(shape),
        4,
        reference=record["reference"],
        tolerance=record["tolerance"],
    )
    assert [list(t.lengths) for t in outcome.trials] == [t["lengths"] for t in record["trials"]]
    assert list(outcome.best.lengths) == record["best"]["lengths"]
    assert outcome.exhausted == record["exhausted"]
    for trial in record["trials"]:
        lengths = dict(zip(MODULES, trial["lengths"], strict=True))
        assert trial["saving"] == pytest.approx(saving(shape, lengths), rel=1e-12)


def test_recorded_prices_are_those_of_the_lengths(shape):
    prices = Prices(shape)
    record = load_record("frontier")
    assert record["full"] == prices.full
    checked = 0
    for found in record["searches"]:
        for trial in found["trials"]:
            lengths = tuple(map(int, trial["name"].split("/")))
            price = prices.of_lengths(lengths)
            assert {name: trial[name] for name in price} == price
            checked += 1
    assert checked > 100


def test_more_bits_lose_less_where_losses_are_large():
    """Not so below a percent, where this model is noise."""
    record = load_record("sensitivity")
    for rows, key in ((record["by_module"], "module"), (record["by_group"], "group")):
        for name in {row[key] for row in rows}:
            line = sorted((r["length"], r["perplexity"]) for r in rows if r[key] == name)
            large = [p for _, p in line if p > 1.02 * record["reference"]]
            assert large == sorted(large, reverse=True)


def test_savings_beside_the_papers_range():
    """What docs/accuracy.md says of larger models."""
    paper = claim("accuracy.anda.saving.1p0")
    assert load_record("search")["searches"][1]["best"]["saving"] < paper["least"]
    record = load_record("search-file")
    assert record["subject"]["weights"] == "as in the file"
    assert paper["least"] < record["best"]["saving"] < paper["most"]


def test_the_cache_costs_the_files_weights_what_the_paper_reports():
    """What docs/accuracy.md says of Harmonia as published."""
    record, other = load_record("kv-file"), load_record("kv")
    assert record["subject"]["model digest"] == other["subject"]["model digest"]
    assert record["subject"]["weights"] == "as in the file"
    found = {row["name"]: row["perplexity"] for row in record["variants"]}
    loss = 100 * (found[accuracy.PAPER] / found["full precision"] - 1)
    paper = claim("accuracy.harmonia.loss")
    assert paper["kv4_least"] < loss < paper["kv4_most"]


def test_every_drawing_is_there(page):
    assert tuple(re.findall(r'<svg [^>]*aria-label="([^"]*)"', page.body)) == DRAWINGS


def test_page_names_subject_and_source(page):
    assert "SmolLM2-135M-Instruct" in page.summary
    for name in MAKERS:
        assert f"tilewright/accuracy/records/{name}.json" in page.body
    assert "prose of the Python 3.11 reference" in page.body
    assert "seed 0" in page.body


def test_a_missing_record_says_how_to_make_it(monkeypatch):
    monkeypatch.setattr(accuracy, "load_record", lambda name: None)
    page = accuracy.build(Context(records=Path(synth.__file__).parent / "records", cases=1))
    assert page.summary == "Formats on a real language model: not measured yet."
    assert page.body.count("python -m tilewright.accuracy smollm2") == len(MAKERS)


def test_tables_of_the_documentation():
    text = PAGE.read_text()
    assert with_tables(text) == text, "run python -m tilewright.accuracy.tables"
    with pytest.raises(ValueError, match=r"^no place for the table searches$"):
        with_tables("words")
