"""The committed results on the real model: they replay, and say what the documentation says."""

import pytest

from tests.support.claims import claim
from tilewright.golden.params.llm import LlmShape
from tilewright.sim.length_search import MODULES, saving, search
from tilewright.site import accuracy
from tilewright.site.accuracy import PAPER
from tilewright.studies.accuracy.anda import cost_of
from tilewright.studies.accuracy.frontier import HARMONIA, Prices, one_length, within_windows
from tilewright.studies.accuracy.records import MAKERS, load_record


@pytest.fixture(scope="module")
def shape():
    return LlmShape(**load_record("search")["shape"])


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
    formats = {"one length": one_length, "windows": within_windows}
    checked = dict.fromkeys(formats, 0)
    for found in record["searches"]:
        for trial in found["trials"]:
            price = prices.of(formats[found["space"]](lengths_of(trial)))
            assert {name: trial[name] for name in price} == price
            checked[found["space"]] += 1
    assert min(checked.values()) > 100


# Statements of docs/accuracy.md in words.


def losses(name):
    """Of a cache's variants, in percent."""
    found = {row["name"]: row["perplexity"] for row in load_record(name)["variants"]}
    return {name: 100 * (p / found["full precision"] - 1) for name, p in found.items()}


@pytest.mark.parametrize("name", ["kv", "kv-file"])
def test_the_cache_costs_less_than_in_the_paper(name):
    found = losses(name)
    assert found[PAPER] < 1 < claim("harmonia.accuracy.loss")["kv4_least"]
    # The local window saves most; factors help, offsets do not.
    assert found["4 bits"] - found["4 bits, local window"] > 25
    assert found["4 bits, windows, factors"] < found["4 bits, windows"]
    assert found["4 bits, windows, offsets"] > found["4 bits, windows"]


def test_retrieval_sees_what_perplexity_does_not():
    quiz = {row["name"]: row["first_choice"] for row in load_record("kv")["retrieval"]}
    full, bare = quiz["full precision"], quiz["4 bits, windows"]
    assert bare < full - 0.1
    assert 0.3 < (quiz[PAPER] - bare) / (full - bare) < 0.7  # about half comes back
    assert quiz["6 bits for old tokens, windows, offsets"] > full - 0.05
    assert quiz["3 bits for old tokens, windows, offsets"] < full / 2


def test_a_search_beats_harmonia_in_operations_within_its_windows_alone():
    record = load_record("frontier")
    paper = next(point for point in record["fixed"] if point["name"] == PAPER)
    searches = {"one length": [], "windows": [], "from Harmonia's": []}
    for found in record["searches"]:
        own = len(found["starts"]) == 1
        searches["from Harmonia's" if own else found["space"]].append(found)
    assert [len(found) for found in searches.values()] == [6, 6, 3]
    for found in searches["one length"]:
        assert lengths_of(found["best"])[5:7] == (7, 5)  # K and V
        assert all(found["best"][price] > paper[price] for price in ("moved", "computed"))
    for found in searches["windows"]:
        assert all(m < 8 for m in lengths_of(found["best"])[:4])
        assert found["best"]["computed"] < paper["computed"]
        assert found["best"]["moved"] > paper["moved"]
    for found in searches["from Harmonia's"]:
        first, best = found["trials"][0], found["best"]
        assert lengths_of(first) == HARMONIA
        assert first["perplexity"] == paper["perplexity"]
        assert best["perplexity"] <= paper["perplexity"]
        assert best["moved"] == paper["moved"]
        shorter = [a < b for a, b in zip(lengths_of(best), HARMONIA, strict=True)]
        assert shorter == [False, False, True, False, True, False, False, True]  # A_u, Q, P
        worse = (best["validation"] - paper["validation"]) / record["validation_reference"]
        assert 0.005 < worse < 0.015
    # Nothing that anybody looked at moves less at Harmonia's loss.
    for found in record["searches"]:
        for trial in found["trials"]:
            if trial["moved"] < paper["moved"]:
                assert trial["perplexity"] > paper["perplexity"]


def lengths_of(point):
    return tuple(map(int, point["name"].split("/")))


def test_tables_have_the_records():
    searches = [s for s in load_record("search")["searches"] if s["best"] is not None]
    assert accuracy.search().column("Fewer bit operations, x") == [
        found["best"]["saving"] for found in searches
    ]
    for name in ("kv", "kv-file"):
        rows = load_record(name)["variants"]
        assert accuracy.cache(name).column("Perplexity") == [row["perplexity"] for row in rows]
        assert accuracy.cache(name).column("Validation loss, %") == list(losses(name).values())
    assert len(accuracy.machines().rows) == 3 * len(searches)


def test_drawings_have_their_titles():
    drawn = [accuracy.search_path(), *accuracy.sensitivity(), accuracy.frontier()]
    assert len(drawn) == 5
    assert all(drawing.count("<svg") == 1 for drawing in drawn)
    assert "tolerance 1.0%" in drawn[0] and "groups of 64" in drawn[2]
