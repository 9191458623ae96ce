"""The records of models of other families and of a GPU: what pages say about them holds."""

import pytest

from tests.docs.pages import DOCS
from tilewright.site.accuracy import (
    conversions,
    gpu_record,
    gpu_times,
    model_name,
    model_records,
    noise,
    perplexities,
    sizes,
    task_formats,
    tasks,
)
from tilewright.studies.accuracy.tasks import changed_interval, interval

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


def page(name):
    """The words of a page of results."""
    return " ".join((DOCS / "results" / f"{name}.md").read_text().split())


def test_rows_of_models():
    records = {"gemma-3-270m": record(2, a=0.1), "x": record(3, a=-0.2, b=1.0)}
    assert perplexities(records).rows == [
        ["tokens, of a window", "1024, 512", "1024, 512"],
        ["plain, perplexity", "20.00 (0.03%)", "20.00 (0.03%)"],
        ["a", "+10.0%", "-20.0%"],
        ["b", "", "+100.0%"],
    ]
    assert model_name("x") == "x"


def test_rows_of_sizes():
    """The knee is the shortest length within 2%; the papers' models are the last row."""
    caches = {"Harmonia, 4-bit cache": 9.0, "Harmonia, windows, offsets": 0.05}
    changes = {"Anda 8/8/8/8": 0.001, "Anda 6/6/6/6": 0.019, "Anda 4/4/4/4": 0.3}
    steep = {**dict.fromkeys(changes, 0.02), **caches}
    found = sizes({"x": record(10**9, **changes, **caches), "y": record(10**8, **steep)}).rows
    assert found[0] == [
        *("x", "1.00 billion", "+0.1%", "+1.9%", "+30.0%", "6 bits", "+900.0%", "+5.0%")
    ]
    assert found[1][5] == "none"
    assert found[2][1:] == [
        *("6.7 to 13 billion", "+0.3%", "+1.6%", "+28.4%", "6 bits", "", "+6.2%")
    ]


def answers(task, name, right, **changes):
    low, high = interval(right, 10)
    row = {"task": task, "format": name, "questions": 10, "available": 50, "score": "raw"}
    row |= {"right": right, "accuracy": right / 10, "low": low, "high": high}
    return row | {"change": 0.0, "change_low": 0.0, "change_high": 0.0} | changes


def test_rows_of_tasks():
    worse = {"change": -0.1, "change_low": -0.153, "change_high": -0.047}
    rows = [answers("piqa", "plain", 7), answers("piqa", "a", 6, **worse)]
    turned = [{"task": "piqa", "format": "a", "questions": 10, "gained": 1, "lost": 2}]
    records = {"x": {"zero_shot": {"rows": rows, "noise": turned}}}
    assert task_formats(records) == ["a"]
    assert tasks(records).rows == [["x", "PIQA", 10, "70% (40 to 89)", "-10.0 (-15.3 to -4.7)"]]
    assert noise(records).rows == [["x", "a", "3 of 10"]]
    assert tasks({"x": {}}).rows == noise({"x": {}}).rows == []


def test_intervals():
    low, high = interval(10, 20)  # Wilson's formula, by hand
    assert (round(low, 4), round(high, 4)) == (0.2993, 0.7007)
    # Agresti's and Min's by hand: (5 - 15) / 102, and 1.96 sqrt(21 - 100 / 102) / 102.
    low, high = changed_interval(5, 15, 100)
    assert (round(low, 4), round(high, 4)) == (-0.184, -0.0121)
    assert changed_interval(0, 0, 100)[1] > 0


def test_committed_models_are_the_files_of_the_packages():
    found = model_records()
    assert found
    for name, digest in DIGESTS.items():
        assert name not in found or found[name]["model"]["digest"] == digest


CHANGES = {  # of perplexity in formats, by model: between these, as the page says in words
    "gemma-3-270m": {
        **{"Anda 8/8/8/8": (-0.01, 0.01), "Harmonia, 8 bits": (-0.01, 0.01)},
        **{"Anda 6/6/6/6": (0.12, 0.13), "Anda 4/4/4/4": (3, 99)},
        **{"Harmonia, 4-bit cache": (0.415, 0.425), "Harmonia, windows": (0.12, 0.125)},
        "Harmonia, windows, offsets": (0.08, 0.085),
    },
    "qwen2.5-coder-1.5b": {
        **{"Anda 8/8/8/8": (-0.012, 0.012), "Harmonia, 8 bits": (-0.012, 0.012)},
        **{"Anda 6/6/6/6": (0.04, 0.11), "Anda 4/4/4/4": (0.385, 0.395)},
        **{"Harmonia, 4-bit cache": (10, 99), "Harmonia, windows": (0.35, 0.45)},
        "Harmonia, windows, offsets": (0.14, 0.15),
    },
}


@pytest.mark.parametrize("model", CHANGES)
def test_perplexities_are_what_the_page_says(model):
    found = model_records()[model]["perplexity"]
    change = {row["format"]: row["change"] for row in found["perplexities"]}
    for name, (least, most) in CHANGES[model].items():
        assert least < change[name] < most, name
    floors = {row["format"]: row["change"] for row in found["noise_floor"]}
    assert {"plain", "Anda 6/6/6/6", "Anda 4/4/4/4", "Harmonia, windows, offsets"} <= set(floors)
    assert all(abs(floors[name]) < abs(change[name]) for name in floors if name != "plain")
    if model.startswith("gemma"):  # without its start, or split otherwise, it is thrice
        assert 17 < found["perplexities"][0]["perplexity"] < 18


MILD = ("Anda 8/8/8/8", "Harmonia, 8 bits", "Harmonia, windows, offsets")
SHORT, CACHE = "Anda 6/6/6/6", "Harmonia, 4-bit cache"
MOVED = {  # model -> what the mild formats change beyond chance, and what the others lower
    "smollm2-135m": (
        {(MILD[1], "boolq"), (MILD[2], "boolq"), (MILD[1], "lambada")},
        {(SHORT, "hellaswag"), *((n, t) for n in (SHORT, CACHE) for t in ("boolq", "lambada"))},
    ),
    "gemma-3-270m": (
        {(MILD[1], "piqa"), (MILD[1], "winogrande")},
        {(SHORT, "hellaswag"), (SHORT, "piqa"), (CACHE, "hellaswag")},
    ),
}


@pytest.mark.parametrize(("model", "count"), [("smollm2-135m", 7), ("gemma-3-270m", 5)])
def test_tasks_show_what_the_page_says(model, count):
    found = model_records()[model]["zero_shot"]
    rows = {(row["format"], row["task"]): row for row in found["rows"]}
    tasks = list(dict.fromkeys(task for _, task in rows))
    assert len(tasks) == count
    few = [rows[name, task] for name in MILD for task in tasks]
    assert all(abs(row["change"]) <= 0.02 for row in few)
    beyond = {(r["format"], r["task"]) for r in few if r["change_low"] > 0 or r["change_high"] < 0}
    moved, lowered = MOVED[model]
    assert beyond == moved
    assert lowered == {
        key for key, r in rows.items() if key[0] in (SHORT, CACHE) and r["change_high"] < 0
    }
    for row in found["noise"]:  # questions that turn by noise are fewer than those by the format
        turns = row["gained"] + row["lost"]
        if row["format"] == SHORT:
            turned = rows[SHORT, row["task"]]
            assert turns < (turned["gained"] + turned["lost"]) / 5
        else:
            assert row["format"] == "plain" and turns <= 1


def test_gpu_record_has_the_golden_bits_and_keeps_the_limits():
    record = gpu_record()
    random = record["bits"][-1]
    assert (random["groups"], random["differ"]) == (10_000_000, 0)
    assert [row["differ"] for row in record["bits"]] == [0] * len(record["bits"])
    for found in record["perplexities"]:
        assert all(row["times_plain"] < 1.5 for row in found["times"])
    for row in record["conversions"]:  # of the bandwidth that the vendor states
        assert row["share_of_peak"] > 0.7 or "plain PyTorch" in row["conversion"]
    assert len(conversions().rows) == len(record["conversions"])
    assert len(gpu_times().rows) == sum(len(found["times"]) for found in record["perplexities"])


def test_noise_floors_of_the_page():
    """The sentences beside the tables of SmolLM2."""
    rows = model_records()["smollm2-135m"]["perplexity"]["noise_floor"]
    floors = {row["format"]: f"{100 * row['change']:.2f}%" for row in rows}
    words = page("accuracy")
    short, cache = floors["Anda 6/6/6/6"], floors["Harmonia, windows, offsets"]
    assert words.count(f"{short} of the perplexity at 6 bits in all linear modules") == 2
    assert f"Noise floor: {cache} of the perplexity with windows and offsets." in words
    assert f"{short} of the perplexity at 6 bits in all linear modules, {cache} with" in words
