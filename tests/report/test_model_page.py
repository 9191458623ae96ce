"""The page of a real model: what its record has, and what it says without one."""

import json

import pytest

from tilewright.report.page import Context
from tilewright.report.pages import model
from tilewright.studies.measured import load_measured
from tilewright.studies.model_record import CONTEXTS, NAMES, predicted_cycles
from tilewright.synth.record import RECORDS

NAME = NAMES["harmonia"]
RECORD = load_measured(NAME)


def page(folder):
    return model.build(Context(records=RECORDS, cases=1, measured=folder))


def written(folder, record):
    (folder / f"{NAME}.json").write_text(json.dumps(record))
    return folder


def test_without_a_record(tmp_path):
    found = page(tmp_path)
    assert "python -m tilewright.studies.model_record" in found.body
    assert not found.failures


def test_page(tmp_path):
    """The text, tables and drawings are there; the record of the RTL is asked for or shown."""
    found = page(written(tmp_path, RECORD))
    made = RECORD["generation"]
    assert made["text"].split()[0] in found.body
    for words in ("What it cost", "One layer on the clock", "Predicted against run", "Perplexity"):
        assert words in found.body
    assert found.body.count("<svg") == 3
    for on in model.RTL_RECORDS:
        assert f"There is no record of a whole token on the RTL of {on} yet" in found.body
    assert "There is no record of a model on Anda yet" in found.body
    run = {"kind": "head", "counters": {"cycles": 123}}
    rtl = {"command": "c", "layers": 30, "vocabulary": 9, "prompt": "P", "text": " T"}
    rtl |= {"programs": [run], "simulated_cycles": 1, "seconds": 2.0, "simulator": "Verilator"}
    rtl |= {"image_sha256": "aa", "memory_sha256": "bb"}
    (tmp_path / f"{model.RTL_RECORDS['Anda']}.json").write_text(json.dumps(rtl))
    assert "all 30 layers and a head of 9 words" in page(tmp_path).body


def test_cycles_that_were_not_predicted_fail_the_report(tmp_path):
    record = json.loads(json.dumps(RECORD))
    record["cycles"]["rows"][0]["run"] *= 2
    (line,) = page(written(tmp_path, record)).failures
    assert "were predicted" in line


@pytest.mark.parametrize("phase", ["decode", "prefill"])
@pytest.mark.parametrize("context", CONTEXTS)
def test_runs_take_what_is_predicted(context, phase):
    """Within 5%: what the programs of the record took, and what is predicted now."""
    if phase == "prefill" and context > 64:  # long to predict anew: the record has what was
        return
    rows = {(row["context"], row["phase"]): row for row in RECORD["cycles"]["rows"]}
    row = rows[context, phase]
    assert predicted_cycles(context, phase) == pytest.approx(row["run"], rel=0.05)


def test_rows_of_the_record_are_within_5_percent():
    rows = RECORD["cycles"]["rows"]
    found = {(row["context"], row["phase"]) for row in rows}
    assert found >= {(context, "decode") for context in CONTEXTS}
    assert found >= {(context, "prefill") for context in CONTEXTS[:-1]}
    for row in rows:
        assert row["run"] == pytest.approx(row["predicted"], rel=0.05)


def test_the_machine_agrees_with_the_engine():
    """Half a percent of perplexity; tokens equal but for near-ties."""
    found = RECORD["agreement"]
    values = found["perplexity"]
    assert values["machine, 8 bits"] == pytest.approx(values["engine, 8 bits"], rel=0.005)
    assert found["equal"] + len(found["near_ties"]) == found["tokens"] == 64
    for tie in found["near_ties"]:
        assert 0 <= tie["engine"][1] - tie["engine"][2] < 0.25


def test_the_page_has_both_accelerators(tmp_path):
    written(tmp_path, RECORD)
    other = NAMES["anda"]
    (tmp_path / f"{other}.json").write_text(json.dumps(load_measured(other)))
    found = page(tmp_path)
    assert "The same model on Anda" in found.body
    assert "tilewright llm smollm2-135m --block anda" in found.body
    assert found.body.count("<svg") == 4 and not found.failures
