"""Mapped netlists and lint of the Anda units: the same benches, on cells."""

import pytest

from golden.params.anda import ANDA_BLOCKS
from golden.params.resolve import resolve
from synth.technology import TECHNOLOGIES
from tests.synth.test_lint import VERILATORS, lint
from tests.synth.test_netlist import netlist_verilog
from tilewright.bench import cocotb_tests
from tilewright.bench.job import Job
from tilewright.simulators import run_bench
from tilewright.simulators.verilog import block_verilog


def run(spec, verilog, cases, simulator="icarus"):
    params = resolve(spec)
    job = Job(spec, cases=cases, stalls=(0.0, 0.4)).as_dict()
    return run_bench(verilog, params.slug, cocotb_tests(params), simulator=simulator, job=job)


def test_small_netlist_passes_and_a_wrong_gate_does_not():
    verilog = netlist_verilog("anda_apu:small", "asap7")
    result = run("anda_apu:small", verilog, 12)
    assert result.passed, result.failure
    right = "module FAx1_ASAP7_75t_R"
    assert right in verilog
    start = verilog.index(right)
    wrong = verilog[start:].replace("assign SN = ", "assign SN = ~", 1)
    assert not run("anda_apu:small", verilog[:start] + wrong, 12).passed


@pytest.mark.full
@pytest.mark.parametrize("technology", TECHNOLOGIES)
@pytest.mark.parametrize(
    "spec", ["anda_compressor_lane:small", "anda_compressor_lane", "anda_apu", "anda_apu:bare"]
)
def test_netlist_of_the_published_size_passes(spec, technology):
    result = run(spec, netlist_verilog(spec, technology), 40, "verilator")
    assert result.passed, result.failure


LINTED = [
    pytest.param(f"{cls.block}:{name}", marks=() if name == "small" else pytest.mark.full)
    for cls in ANDA_BLOCKS
    for name in cls.PRESETS
]


@pytest.mark.parametrize("spec", LINTED)
def test_verilog_is_clean(spec, tmp_path):
    for verilator in VERILATORS:
        found = lint(verilator, resolve(spec).slug, block_verilog(spec), tmp_path)
        assert found == "", verilator.title
