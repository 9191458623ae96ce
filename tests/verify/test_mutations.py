"""A bench that cannot fail proves nothing: one planted error per kind of unit is found."""

import re

import pytest

from tests.support.benches import run_block, run_changed_block
from tests.support.mutate import plant
from tilewright.cli import main
from tilewright.studies.runs import simulation

# block, what to look for in its Verilog (the first place changes), what to put there, the finding
MUTATIONS = {
    "multiplier": ("float_mul", r" \^ ", " | ", r"case \d+: got 0x[0-9a-f]{4}, expected 0x"),
    "prefix sum": ("prefix_sum:small", r" \+ ", " - ", r"index\[\d\]: got 0x\w, expected 0x\w"),
    "queue, data": ("queue:tiny", r"\[read__addr\]", "[write__addr]", r"got 0x\w, expected 0x\w"),
    "queue, level": (
        "queue:odd",
        r"o__valid & o__ready",
        "o__valid",
        r"changed its payload before it was taken, from 0x\w+ to 0x\w+",
    ),
}


@pytest.mark.parametrize("simulator", ["icarus", pytest.param("verilator", marks=pytest.mark.full)])
@pytest.mark.parametrize(("block", "old", "new", "finding"), MUTATIONS.values(), ids=MUTATIONS)
def test_planted_error_is_found(block, old, new, finding, simulator, monkeypatch, capsys):
    original = simulation.block_verilog

    def mutated(spec):
        text, count = re.subn(old, new, original(spec), count=1)
        assert count == 1, f"{block}: nothing looks like {old}"
        return text

    monkeypatch.setattr(simulation, "block_verilog", mutated)
    assert main(["simulate", block, "--cases", "300", "--simulator", simulator]) == 1
    printed = capsys.readouterr().out
    assert "failed" in printed
    assert re.search(finding, printed), printed


@pytest.mark.full
def test_a_core_that_waits_for_ever_is_found(monkeypatch):
    """With this request table a tile never ends, though its loader stays busy."""
    old, new = "matches & self.search", "matches | self.search"
    plant(monkeypatch, "deca.request_cam:RequestCam", old, new)
    result = run_changed_block("deca:small", cases=20)
    finding = "no tile moved while memory and registers moved 20000 words: loader 0: "
    assert any(finding in (test.message or "") for test in result.tests)


def test_a_block_that_never_stops_is_found(monkeypatch):
    original = simulation.block_verilog("queue:tiny")
    text, count = re.subn(r"assign o__valid = .*;", "assign o__valid = 1'h1;", original, count=1)
    assert count == 1
    result = run_block("queue:tiny", verilog=text, cases=20)
    assert re.search(r"o gave over \d+ words", result.failure), result.failure
