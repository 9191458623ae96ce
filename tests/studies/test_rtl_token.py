"""A whole token on the emitted Verilog: the study on a tiny model, and its record."""

from dataclasses import asdict
from pathlib import Path

import pytest

from tests.support.smollm2 import smollm2_or_skip
from tilewright.studies.compiled import Session, compile_model, open_folder
from tilewright.studies.compiled.compiling import Options, compiled_folder
from tilewright.studies.compiled.rtl_token import MODEL, PROMPT, RECORD, TARGET, run_token
from tilewright.studies.measured import load_measured

MEASURED = load_measured(RECORD)
OF_THE_RUN = {"command", "seconds", "simulator"}  # not the same everywhere


def test_a_token_of_a_tiny_model(tmp_path):
    """What is recorded is what the command's own session has."""
    compile_model("tiny-llama", tmp_path / "tiny", Options(target="harmonia:small", context=8))
    found = run_token(tmp_path / "tiny", "A")
    wanted = Session(open_folder(tmp_path / "tiny"), "A").generate(1)
    assert (found.programs, found.text) == (wanted.programs, wanted.text)
    assert found.simulated_cycles > sum(run.cycles for run in found.programs)
    assert found.image_sha256 != found.memory_sha256


def test_the_record_has_a_whole_token():
    assert MEASURED is not None
    assert (MEASURED["layers"], MEASURED["vocabulary"]) == (30, 49_152)
    assert MEASURED["block"] == "harmonia"
    assert [run["kind"] for run in MEASURED["programs"]] == ["prefill", "head"]
    cycles = sum(run["counters"]["cycles"] for run in MEASURED["programs"])
    page = Path(__file__).parents[2] / "docs" / "models-on-harmonia.md"
    assert f"{cycles:,} cycles" in " ".join(page.read_text().split())


@pytest.mark.full
def test_the_record_on_the_verilog():
    smollm2_or_skip()
    found = asdict(run_token(compiled_folder(MODEL, Options(target=TARGET)), PROMPT))
    same = {key: value for key, value in MEASURED.items() if key not in OF_THE_RUN}
    assert {key: found[key] for key in same} == same
