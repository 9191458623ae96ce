"""Rules that the bench checks besides results: each is broken once and noticed.

The blocks here are small Verilog modules in place of a register slice of 4 bits (latency 1, one
word a cycle); the first one is correct.
"""

import re

import pytest

from tilewright.golden.params.resolve import resolve
from tilewright.verify.job import Job
from tilewright.verify.simulators import run_bench

BLOCK = "register_slice:tiny"
NAME = resolve(BLOCK).slug

# One word is held in `word` while `full`.
SLICE = f"""
module {NAME}(input clk, input rst,
    input [3:0] i__payload, input i__valid, output i__ready,
    output [3:0] o__payload, output o__valid, input o__ready);
  reg full = 0; reg [3:0] word = 0; reg [7:0] count = 0; reg waited = 0;
  wire take = i__valid & i__ready;
  wire give = o__valid & o__ready;
  assign i__ready = READY;
  assign o__valid = VALID;
  assign o__payload = PAYLOAD;
  always @(posedge clk) begin
    count <= rst ? 0 : count + 1;
    waited <= o__valid & ~o__ready;
    full <= rst ? 0 : take ? KEEP : give ? 0 : full;
    if (take) word <= i__payload;
  end
endmodule
"""
PASSES = {"READY": "~full | o__ready", "VALID": "full", "PAYLOAD": "word", "KEEP": "1"}

BROKEN = {
    "takes nothing": (
        {"READY": "1'b0"},
        r"one at a time: nothing moved for 1000 cycles: i took 0 of 1 words; o gave 0 words",
    ),
    "loses a word": ({"KEEP": "i__payload != 5"}, r"case \d+: got 0x\w, expected 0x5\n"),
    "loses the last word": (
        {"KEEP": "count < 100"},
        r"one at a time: port o gave \d+ words, expected 12$",
    ),
    "gives too much": (
        {"VALID": "full | count == 40"},
        r"one at a time: port o, case \d+: got 0x\w, expected 0x\w",
    ),
    "withdraws": ({"VALID": "full & ~waited"}, r"cycle \d+: o withdrew 0x\w before it was"),
    "changes": (
        {"PAYLOAD": "o__ready ? word : ~word"},
        r"cycle \d+: o changed its payload before it was taken, from 0x\w to 0x\w",
    ),
    "waits for ready": (
        {"VALID": "full & o__ready"},
        r"ready after valid: nothing moved for 1000 cycles: i took 1 of 12 words; o gave 0 words",
    ),
    "combinational": (
        {"READY": "o__ready", "VALID": "i__valid", "PAYLOAD": "i__payload"},
        r"port o answered after 0 cycles, stated latency 1",
    ),
    "slow": (
        {"READY": "~full"},
        r"stall 0: port o gave result 1 after 2 cycles, stated interval 1 \(so 1\)",
    ),
}


def verilog(**changes):
    text = SLICE
    for name, expression in (PASSES | changes).items():
        text = text.replace(name, expression)
    return text


def run(text, simulator, **options):
    job = Job(BLOCK, **options).as_dict()
    return run_bench(text, NAME, "tilewright.verify.stream_tests", simulator=simulator, job=job)


@pytest.mark.parametrize("simulator", ["verilator", "icarus"])
def test_the_correct_one_passes(simulator):
    result = run(verilog(), simulator)
    assert result.failure is None
    assert result.numbers["cases"] == 300


@pytest.mark.parametrize(("changes", "finding"), BROKEN.values(), ids=BROKEN)
def test_broken_rule_is_noticed(changes, finding):
    failure = run(verilog(**changes), "icarus").failure
    assert failure is not None
    assert failure.startswith(f"{NAME}, ")
    assert re.search(finding, failure), failure


@pytest.mark.parametrize(
    ("changes", "signal"),
    [
        ({"VALID": "count[3] ? full : 1'bx"}, "o__valid"),
        ({"READY": "1'bx"}, "i__ready"),
        ({"PAYLOAD": "{word[3:1], 1'bx}"}, "o__payload"),
    ],
)
def test_undefined_bits_are_a_failure_on_icarus(changes, signal):
    failure = run(verilog(**changes), "icarus").failure
    assert failure is not None
    assert f"{signal} is undefined: " in failure
    assert "X" in failure


def test_undefined_payload_that_nobody_takes_is_none():
    assert run(verilog(PAYLOAD="full ? word : 4'bx"), "icarus").failure is None


def test_first_mismatch_is_told_in_full():
    failure = run(verilog(PAYLOAD="word ^ (word == 4'hf)"), "icarus", seed=7).failure
    assert failure == (
        f"{NAME}, one at a time: port o, case 1: got 0xe, expected 0xf\n"
        "  data: got 0xe, expected 0xf\n"
        "  i.data = 0xf"
    )
