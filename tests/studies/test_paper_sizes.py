"""Programs at the papers' sizes: slices of them on the Verilog, and the record."""

from dataclasses import replace
from functools import partial
from pathlib import Path

import pytest

from tilewright.base.errors import CheckError
from tilewright.compiler.machine import machine_of
from tilewright.compiler.sizes import Step
from tilewright.golden.params.resolve import resolve
from tilewright.studies.measured import load_measured
from tilewright.studies.runs import paper_sizes
from tilewright.studies.runs.paper_sizes import CASES, RECORD, run_case
from tilewright.verify.machine.model_workload import layer_shape
from tilewright.verify.native import run as native

PAGES = {
    name: (Path(__file__).parents[2] / "docs" / f"{page}-timing.md").read_text()
    for name, page in (("harmonia", "harmonia"), ("wide", "harmonia"), ("anda", "anda"))
}
MEASURED = {run["name"]: run for run in load_measured(RECORD)["runs"]}


@pytest.mark.parametrize(
    ("block", "step"),
    [
        # Prompts: tests/verify/test_decoder_layer.py.
        ("harmonia:small", Step.batch({0: 20, 1: 9, 2: 0})),
        # Another build.
        pytest.param("anda:small", Step.batch({0: 9, 1: 3, 2: 0}), marks=pytest.mark.full),
    ],
)
def test_a_layer_on_a_small_block(block, step):
    """Memory, counters and cycles are golden's, or the run would not return."""
    work = partial(paper_sizes._layer, step=step, shape=layer_shape(machine_of(resolve(block))))
    found = run_case("small", paper_sizes.Case(block, work))
    assert found.counters["cycles"] == found.golden_cycles


@pytest.mark.parametrize("block", ["harmonia", pytest.param("anda", marks=pytest.mark.full)])
def test_a_stream_from_hbm2_on_a_small_block(block):
    case = CASES[f"{block}: a stream of weights"]
    found = run_case("small", replace(case, block=f"{block}:small"))
    assert found.counters["cycles"] >= found.golden_cycles


def test_what_is_not_goldens_is_refused(monkeypatch):
    def lost(model, programs, memory, answers):
        run = run_native(model, programs, memory, answers)
        memory[0] ^= 1
        return run

    run_native = native.run_native
    monkeypatch.setattr(native, "run_native", lost)
    with pytest.raises(CheckError, match=r"^small: memory is not golden's$"):
        run_case("small", paper_sizes.Case("harmonia:small", paper_sizes._stream))


def test_every_case_is_on_record():
    assert list(MEASURED) == list(CASES)


@pytest.mark.parametrize("name", MEASURED)
def test_what_the_record_and_the_page_show(name):
    """A stream has nine tenths of HBM2's rate; what golden can time takes golden's cycles."""
    run, from_hbm2 = MEASURED[name], CASES[name].from_hbm2
    block, _, program = name.partition(": ")
    if program == "a stream of weights":
        assert run["gigabytes_per_second"] >= 0.9 * 256
    assert from_hbm2 or run["counters"]["cycles"] == run["golden_cycles"]
    golden = "not timed" if from_hbm2 else f"{run['golden_cycles']:,}"
    units = ("gemm", "vector", "load") if block == "anda" else ("gemm", "load")
    words = [*(f"{run['counters'][unit]:,}" for unit in units), f"{run['gigabytes_per_second']}"]
    row = " | ".join([block, program, f"{run['counters']['cycles']:,}", golden, *words])
    assert f"| {row} |" in PAGES[block], row


@pytest.mark.full
@pytest.mark.parametrize("name", CASES)
def test_the_record_on_the_verilog(name):
    found = run_case(name, CASES[name])
    assert found.counters == MEASURED[name]["counters"]
