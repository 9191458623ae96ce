"""A whole token on the emitted Verilog: the study on a tiny model."""

from tilewright.studies.compiled import Session, compile_model, open_folder
from tilewright.studies.compiled.compiling import Options
from tilewright.studies.compiled.rtl_token import run_token


def test_a_token_of_a_tiny_model(tmp_path):
    """What is recorded is what the command's own session has."""
    compile_model("tiny-llama", tmp_path / "tiny", Options(target="harmonia:small", context=8))
    found = run_token(tmp_path / "tiny", "A")
    wanted = Session(open_folder(tmp_path / "tiny"), "A").generate(1)
    assert (found.programs, found.text) == (wanted.programs, wanted.text)
    assert found.simulated_cycles > sum(run.cycles for run in found.programs)
    assert found.image_sha256 != found.memory_sha256
