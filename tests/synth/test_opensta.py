"""Our timing against OpenSTA, where that is installed (Debian package ``opensta``)."""

import re
import shutil
import subprocess

import pytest

from tilewright.golden.params.resolve import resolve
from tilewright.synth.emit import to_rtlil
from tilewright.synth.flow import Goal, synthesise
from tilewright.synth.liberty import cached_liberty
from tilewright.synth.technology import TECHNOLOGIES, load_technology

PERIOD = 100_000  # ps, longer than anything here

pytestmark = [
    pytest.mark.full,
    pytest.mark.skipif(shutil.which("sta") is None, reason="OpenSTA is not installed"),
]


@pytest.mark.parametrize("technology", TECHNOLOGIES)
@pytest.mark.parametrize("goal", [Goal.AREA, Goal.BALANCED])
@pytest.mark.parametrize("spec", ["adder_tree:pipelined", "queue:odd", "float_mul:pipelined"])
def test_longest_path(spec, goal, technology, tmp_path):
    params, cells = resolve(spec), load_technology(technology)
    # Our Liberty file has no clock gates, so that OpenSTA would see no clock behind them.
    result = synthesise(to_rtlil(params), params.slug, cells, goal, gating=False)
    (tmp_path / "netlist.v").write_text(result.verilog)
    (tmp_path / "check.tcl").write_text(f"""
read_liberty {cached_liberty(cells)}
read_verilog {tmp_path}/netlist.v
link_design {params.slug}
create_clock -name clk -period {PERIOD} [get_ports clk]
set_clock_transition {cells.clock_slew} [get_clocks clk]
set_input_delay 0 -clock clk [all_inputs]
set_driving_cell -lib_cell {cells.drive_cell} [all_inputs]
set_load {cells.output_load} [all_outputs]
set_output_delay 0 -clock clk [all_outputs]
set_false_path -from [get_ports rst]
report_checks -path_delay max -digits 2
exit
""")
    done = subprocess.run(
        ["sta", "-exit", tmp_path / "check.tcl"], capture_output=True, text=True, check=True
    )
    slack = float(re.search(r"([\d.]+)\s+slack", done.stdout)[1])
    # OpenSTA takes the slowest slew of all starts, we that of inputs and of registers apart.
    assert result.delay == pytest.approx(PERIOD - slack, rel=0.005)
