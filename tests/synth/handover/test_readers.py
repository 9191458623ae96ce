"""Each flow's own reader takes the configuration that we write for it, where it is installed.

``nox -s flows`` installs them. They run in a process of their own: what they warn of at import is
no error of ours.
"""

import re
import shutil
import subprocess
import sys
from importlib.util import find_spec

import pytest

from tilewright.synth.flow import synthesise
from tilewright.synth.handover.flows import design_of, export_block
from tilewright.synth.liberty import cached_liberty

pytestmark = pytest.mark.full
BLOCKS = ["popcount:odd", "figna_aligner"]  # without registers; with a memory


def needs(package):
    reason = f"to get it: pip install {package}"
    return pytest.mark.skipif(find_spec(package) is None, reason=reason)


def read(folder, *argv):
    done = subprocess.run(argv, cwd=folder, capture_output=True, text=True)
    assert done.returncode == 0, (done.stdout + done.stderr)[-2000:]
    return done.stdout


LIBRELANE = """
import json
from librelane.common import GenericDict
from librelane.config import Config
from librelane.config.preprocessor import preprocess_dict
from librelane.flows import Flow

flow = Flow.factory.get("Classic")
with open("config.json") as file:
    raw = json.load(file)
assert raw.pop("meta") == {"version": 2, "flow": "Classic"}
read = preprocess_dict(raw, design_dir=".", pdk="sky130A", pdkpath=".", scl="sky130_fd_sc_hd")
# Variables of the PDK are missing: it is not installed.
final, warnings, errors = Config._Config__process_variable_list(
    GenericDict(read), flow.get_all_config_variables(flow), on_unknown_key="error", missing_ok=True
)
assert not warnings and not errors, (warnings, errors)
print(final["DESIGN_NAME"], final["CLOCK_PERIOD"], *(final["MACROS"] or ()))
"""


@needs("librelane")
@pytest.mark.parametrize("block", BLOCKS)
def test_librelane(block, tmp_path):
    export_block(block, "librelane", tmp_path, period=2500.0)
    name, period, *macros = read(tmp_path, sys.executable, "-c", LIBRELANE).split()
    assert (name, float(period)) == (design_of(block, "sky130hd", 2500.0).name, 2.5)
    assert len(macros) == (block == "figna_aligner")


KLAYOUT = """
import sys
import klayout.db as db

for suffix in ("lef", "gds"):
    layout, options = db.Layout(), db.LoadLayoutOptions()
    options.lefdef_config.macro_resolution_mode = 1  # the abstract view, not the layout
    layout.read(f"sram_32x64_1r1w.{suffix}", options)
    box = layout.top_cell().dbbox()
    print(layout.top_cell().name, f"{box.width():.3f} {box.height():.3f}")
"""


@needs("klayout")
def test_klayout_reads_the_stub_of_a_memory(tmp_path):
    export_block("figna_aligner", "librelane", tmp_path, period=2500.0)
    abstract, layout = read(tmp_path, sys.executable, "-c", KLAYOUT).splitlines()
    assert abstract == layout
    assert abstract.startswith("sram_32x64_1r1w ")


def one_bit_at_a_time(verilog):
    """OpenSTA 2.0.17 takes no concatenation on the left of an assignment."""

    def apart(match):
        left, right = (side.split(", ") for side in match.groups())
        return "".join(f"  assign {a} = {b};\n" for a, b in zip(left, right, strict=True))

    return re.sub(r"^  assign \{ (.*) \} = \{ (.*) \};\n", apart, verilog, flags=re.MULTILINE)


@pytest.mark.skipif(shutil.which("sta") is None, reason="to get it: apt-get install opensta")
def test_opensta_reads_constraints_and_memories(tmp_path):
    """The longest path with the macro's Liberty stub and our constraints is the one we found."""
    export_block("figna_aligner", "orfs", tmp_path, period=5000.0)
    design = design_of("figna_aligner", "asap7", 5000.0)
    result = synthesise(design.rtlil, design.name, design.technology, gating=False)
    (tmp_path / "netlist.v").write_text(one_bit_at_a_time(result.verilog))
    (tmp_path / "check.tcl").write_text(f"""
read_liberty {cached_liberty(design.technology)}
read_liberty sram_32x64_1r1w.lib
read_verilog netlist.v
link_design {design.name}
read_sdc {design.name}.sdc
set_clock_transition {design.technology.clock_slew} [get_clocks clk]
puts "slack [worst_slack]"
""")
    said = read(tmp_path, "sta", "-exit", "check.tcl")
    assert "Error" not in said, said
    slack = float(said.partition("slack ")[2].split()[0])
    assert 5000.0 - slack == pytest.approx(result.delay, rel=0.02)
