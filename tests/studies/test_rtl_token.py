"""Whole tokens on the emitted Verilog: the study on a tiny model, and its records."""

import json
from dataclasses import asdict
from pathlib import Path

import pytest

from tests.support.smollm2 import smollm2_or_skip
from tilewright.compiler.compile import Options, compile_model, compiled_folder
from tilewright.compiler.folder import open_folder
from tilewright.compiler.generate import Session
from tilewright.compiler.host import Runner
from tilewright.studies.measured import load_measured
from tilewright.studies.rtl_token import CASES, MODEL, main, run_tokens
from tilewright.studies.sessions import accelerator_of

HARMONIA, ANDA = (load_measured(f"{name}_token") for name in ("harmonia", "anda"))
DOCS = Path(__file__).parents[2] / "docs"
OF_THE_RUN = {"command", "seconds", "simulator"}  # not the same everywhere


def test_tokens_of_a_tiny_model(tmp_path):
    """The record has the programs and the text of a session; the second token is decoded."""
    compile_model("tiny-llama", tmp_path / "tiny", Options(target="harmonia:small", context=8))
    found = run_tokens(tmp_path / "tiny", "AB", 2)
    runner = Runner(open_folder(tmp_path / "tiny"), latency=found["latency"])
    (wanted,) = Session(runner, "AB", accelerator_of(runner.machine)).generate(2)
    assert found["programs"] == [asdict(run) for run in wanted.programs]
    assert found["text"] == wanted.text
    assert [run["kind"] for run in found["programs"]] == ["prefill", "head", "decode", "head"]
    assert found["simulated_cycles"] > sum(run.cycles for run in wanted.programs)
    assert found["image_sha256"] != found["memory_sha256"]


def test_an_accelerator_that_nobody_knows():
    with pytest.raises(ValueError, match=r"^an accelerator is one of harmonia, anda, not 'deca'$"):
        main(["deca"])


@pytest.mark.parametrize(
    ("block", "record", "kinds"),
    [
        ("harmonia", HARMONIA, ["prefill", "head", "decode", "head"]),
        ("anda", ANDA, ["decode", "head"]),
    ],
)
def test_the_record_has_whole_tokens(block, record, kinds):
    assert (record["layers"], record["vocabulary"], record["block"]) == (30, 49_152, block)
    assert [run["kind"] for run in record["programs"]] == kinds


def test_pages_have_the_cycles():
    cycles = [run["counters"]["cycles"] for run in HARMONIA["programs"]]
    steps = f"{sum(cycles[:2]):,} cycles and {sum(cycles[2:]):,} cycles"
    assert steps in " ".join((DOCS / "models-on-harmonia.md").read_text().split())
    cycles, busy = (
        [run["counters"][name] for run in ANDA["programs"]] for name in ("cycles", "matrix_busy")
    )
    page = " ".join((DOCS / "anda-models.md").read_text().split())
    assert f"the RTL takes {cycles[0]:,} cycles and {cycles[1]:,} cycles" in page
    assert f"{sum(cycles) / 285e3:.1f} ms at 285 MHz" in page
    assert f"works in {100 * sum(busy) / sum(cycles):.0f}% of them" in page


@pytest.mark.full
@pytest.mark.parametrize("target", CASES)
def test_the_record_on_the_verilog(target):
    smollm2_or_skip()
    record = load_measured(f"{target}_token")
    prompt, folder = CASES[target][0], compiled_folder(MODEL, Options(target=target))
    found = run_tokens(folder, prompt, len(record["programs"]) // 2)
    found = json.loads(json.dumps(found))  # tuples as the record has them
    same = {key: value for key, value in record.items() if key not in OF_THE_RUN}
    assert {key: found[key] for key in same} == same
