"""Mapped netlists of the Anda units: the same benches, on cells."""

import pytest

from tests.support.benches import run_block
from tests.synth.test_netlist import netlist_verilog
from tilewright.synth.technology import TECHNOLOGIES


def run(spec, verilog, cases, simulator="icarus"):
    return run_block(spec, simulator, verilog=verilog, cases=cases, stalls=(0.0, 0.4))


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
