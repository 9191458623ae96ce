"""Programs at the papers' sizes: slices of them on the Verilog."""

from dataclasses import replace
from functools import partial

import pytest

from tilewright.base.errors import CheckError
from tilewright.studies.runs import paper_sizes
from tilewright.studies.runs.paper_sizes import CASES, _prompt, _token, run_case


@pytest.mark.parametrize(
    "work", [partial(_prompt, tokens=40), partial(_token, tokens=80)], ids=["prompt", "token"]
)
def test_attention_on_a_small_block(work):
    """Memory, counters and cycles are golden's, or the run would not return."""
    found = run_case("small", paper_sizes.Case("harmonia:small", work))
    assert found.counters["cycles"] == found.golden_cycles


@pytest.mark.parametrize("block", ["harmonia", "anda"])
def test_a_stream_from_hbm2_on_a_small_block(block):
    case = CASES[f"{block}: a stream of weights"]
    found = run_case("small", replace(case, block=f"{block}:small"))
    assert found.counters["cycles"] >= found.golden_cycles


def test_what_is_not_goldens_is_refused(monkeypatch):
    def lost(model, programs, memory, answers):
        run = run_native(model, programs, memory, answers)
        memory[0] ^= 1
        return run

    run_native = paper_sizes.run_native
    monkeypatch.setattr(paper_sizes, "run_native", lost)
    with pytest.raises(CheckError, match=r"^small: memory is not golden's$"):
        run_case("small", paper_sizes.Case("harmonia:small", paper_sizes._stream))
