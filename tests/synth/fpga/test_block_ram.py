"""The model of ECP5's block RAM: memories of all its shapes against what their Verilog says."""

import subprocess

import pytest

from tilewright.synth.yosys import yosys_files
from tilewright.verify.netlist import OWN_MODELS, open_cells

# Width of a word, how much of it a write enable covers, and what a read gives of a word that is
# written in the same cycle. Each memory fills a block RAM.
SHAPES = [
    *((1, 1, "old"), (9, 9, "old"), (36, 9, "old"), (18, 18, "new")),
    *(pytest.param(n, k, "old", marks=pytest.mark.full) for n, k in ((2, 2), (4, 4), (18, 9))),
]
ADDRESS_BITS = {1: 14, 2: 13, 4: 12, 9: 11, 18: 10, 36: 9}
CYCLES = 3000


def memory_verilog(name: str, width: int, part: int, gives: str) -> str:
    """One port that writes and one that reads; the first words have a value from the beginning."""
    bits = ADDRESS_BITS[width]
    old = f"""  reg [{width - 1}:0] held;
  always @(posedge clk) if (read) held <= words[read_at];
  assign got = held;"""
    new = f"""  reg [{bits - 1}:0] at;
  always @(posedge clk) at <= read_at;
  assign got = words[at];"""
    return f"""
module {name} (input clk, input read, input [{width // part - 1}:0] write,
    input [{bits - 1}:0] read_at, input [{bits - 1}:0] write_at,
    input [{width - 1}:0] given, output [{width - 1}:0] got);
  (* ram_style = "block" *) reg [{width - 1}:0] words [0:{2**bits - 1}];
  integer k;
  initial for (k = 0; k < 256; k = k + 1) words[k] = k * 40503;
  always @(posedge clk) for (k = 0; k < {width // part}; k = k + 1)
    if (write[k]) words[write_at][k * {part} +: {part}] <= given[k * {part} +: {part}];
{old if gives == "old" else new}
endmodule
"""


def bench_verilog(width: int, part: int) -> str:
    """The memory as written and as mapped get the same commands, most of them on few words."""
    bits = ADDRESS_BITS[width]
    addresses = f"ra[{bits - 1}:0], wa[{bits - 1}:0]"
    ports = f"clk, r, w[{width // part - 1}:0], {addresses}, d[{width - 1}:0]"
    return f"""
module bench;
  reg clk = 0, r = 1;
  reg [3:0] w = 0;
  reg [13:0] ra = 0, wa = 0;
  reg [35:0] d = 0;
  wire [{width - 1}:0] right, found;
  written a ({ports}, right);
  mapped b ({ports}, found);
  integer n;
  initial begin
    for (n = 0; n < {CYCLES}; n = n + 1) begin
      #1 clk = 1;
      #1 clk = 0;
      if (^right !== 1'bx && right !== found) begin
        $display("cycle %0d: %h, not %h", n, found, right);
        $finish;
      end
      r = $random; w = $random & $random; d = {{$random, $random}}; ra = $random; wa = $random;
      if (n % 4) begin ra = ra & 14'h2053; wa = wa & 14'h2053; end
    end
    $display("equal");
    $finish;
  end
endmodule
"""


def difference(folder, width: int, part: int, gives: str) -> str:
    """Icarus on the first cycle in which both forms differ, or on their equality."""
    commands = ["read_verilog in.v", "synth_ecp5 -top mapped", "write_verilog -noattr out.v"]
    source = {"in.v": memory_verilog("mapped", width, part, gives)}
    mapped = yosys_files(commands, source, ("out.v",))["out.v"]
    assert "DP16KD" in mapped
    opened = open_cells(mapped, "mapped", "+/ecp5/cells_sim.v")
    written = memory_verilog("written", width, part, gives)
    (folder / "all.v").write_text(written + opened + bench_verilog(width, part))
    subprocess.run(["iverilog", "-g2012", "-o", "bench", "all.v"], cwd=folder, check=True)
    return subprocess.run(
        ["vvp", "-n", "bench"], cwd=folder, check=True, capture_output=True, text=True
    ).stdout.splitlines()[0]


@pytest.mark.parametrize(("width", "part", "gives"), SHAPES)
def test_memories_in_block_ram_are_what_was_written(tmp_path, width, part, gives):
    assert difference(tmp_path, width, part, gives) == "equal"


@pytest.mark.parametrize(
    ("right", "wrong"),
    [("mask_A) | (word_A", "mask_A) | (~word_A"), ("FIRST[40 * k + 20", "FIRST[40 * k")],
)
def test_a_wrong_model_is_found(tmp_path, monkeypatch, right, wrong):
    model = OWN_MODELS["DP16KD"]
    assert right in model
    monkeypatch.setitem(OWN_MODELS, "DP16KD", model.replace(right, wrong))
    assert difference(tmp_path, 18, 18, "old").startswith("cycle ")
