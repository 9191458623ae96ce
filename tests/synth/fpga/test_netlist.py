"""Netlists for FPGAs under the benches of their blocks, and errors planted in them."""

import re

import pytest

from tests.cli.test_cli import run
from tilewright.verify.netlist import OWN_MODELS, bench_fpga_netlist, fpga_netlist_verilog


def test_a_netlist_passes_and_a_wrong_one_does_not():
    """LUTs alone; one entry of one of them is turned over."""
    assert bench_fpga_netlist("popcount:odd").passed
    good = fpga_netlist_verilog("popcount:odd")
    wrong = re.sub(r"8'h([0-9a-f]{2})", lambda m: f"8'h{int(m[1], 16) ^ 255:02x}", good, count=1)
    assert wrong != good
    assert not bench_fpga_netlist("popcount:odd", verilog=wrong).passed


@pytest.mark.parametrize(
    "device",
    ["ecp5-85k", *(pytest.param(x, marks=pytest.mark.full) for x in ("nexus-40k", "gatemate-a1"))],
)
def test_registers_and_memories_pass(device):
    """A queue: registers, and its words in LUTs that are memory where the family has them."""
    found = bench_fpga_netlist("queue:odd", device)
    assert found.passed, found.failure


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (("--check",), "--check goes with a BLOCK"),
        (("popcount:odd", "--check", "--seed", "2"), "--seed is of placing; --check places"),
        (("popcount:odd", "--check", "--device", "ice40"), "no device 'ice40'; there are ecp5-25k"),
    ],
)
def test_refusals(capsys, words, message):
    code, _, said = run(capsys, "fpga", *words)
    assert (code, said.removeprefix("tilewright: ").startswith(message)) == (2, True), said


# Long: synthesis and gates of whole PEs and accelerators.


@pytest.mark.full
@pytest.mark.parametrize("block", ["float_mul:pipelined", "anda_apu:small"])
def test_larger_netlists_pass(block):
    found = bench_fpga_netlist(block)
    assert found.passed, found.failure


@pytest.mark.full
def test_multipliers_pass_and_a_wrong_one_does_not(monkeypatch):
    """Products of 8 and 4 bits, each in a multiplier of the device."""
    block = "harmonia_pe:single,group=4"
    found = bench_fpga_netlist(block)
    assert found.passed, found.failure
    wrong = OWN_MODELS["MULT18X18D"].replace("wide_a * wide_b", "wide_a * wide_b + 1")
    monkeypatch.setitem(OWN_MODELS, "MULT18X18D", wrong)
    assert not bench_fpga_netlist(block).passed


@pytest.mark.full
def test_block_rams_pass_and_a_wrong_one_does_not(monkeypatch):
    """Operands of an array, 1,024 words of each column."""
    block = "harmonia_array:small,words=1024"
    found = bench_fpga_netlist(block)
    assert found.passed, found.failure
    wrong = OWN_MODELS["DP16KD"].replace("row_B <= 36'd0", "row_B <= 36'd1")
    wrong = wrong.replace('WRITETHROUGH" ? new_B : old_B', 'WRITETHROUGH" ? new_B : ~old_B')
    monkeypatch.setitem(OWN_MODELS, "DP16KD", wrong)
    assert not bench_fpga_netlist(block).passed


@pytest.mark.full
@pytest.mark.parametrize("block", ["anda:fpga", "harmonia:fpga"])
def test_whole_accelerators_pass(block):
    """Programs with and without stalls, at the cycles of the model."""
    found = bench_fpga_netlist(block)
    assert found.passed, found.failure
