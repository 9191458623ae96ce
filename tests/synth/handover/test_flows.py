"""Input of chip flows: our clock and false paths, every file that a configuration names, macros."""

import json
import re
import subprocess
import textwrap

import pytest

from tests.cli.test_cli import run
from tilewright.golden.params.resolve import resolve
from tilewright.synth.handover.flows import (
    FLOWS,
    WIRE_MARGIN,
    design_of,
    export_block,
    flow_files,
    sdc,
)
from tilewright.synth.handover.macros import macro_gds, macro_lef, macro_size
from tilewright.synth.memory import parse_macro
from tilewright.synth.record import find_record
from tilewright.synth.technology import TECHNOLOGIES, load_technology

WITH_MEMORY = "figna_aligner"


@pytest.mark.parametrize("flow", FLOWS)
@pytest.mark.parametrize("block", ["popcount:odd", WITH_MEMORY])
def test_a_configuration_names_files_that_are_written(flow, block):
    files = flow_files(block, flow)
    configuration = files[FLOWS[flow].configuration]
    named = set(re.findall(r"[\w]+\.(?:v|sdc|lef|lib|gds)\b", configuration))
    assert f"{resolve(block).slug}.v" in named
    assert named <= files.keys()
    assert {name for name in files if name.endswith((".lef", ".lib"))} <= named


def test_the_default_clock_is_the_record_and_a_margin():
    record = find_record(resolve("anda_apu"), "asap7")
    period = design_of("anda_apu", "asap7").period
    assert period == pytest.approx(WIRE_MARGIN * record["metrics"]["delay"]["value"])


def test_constraints_have_the_clock_in_the_unit_of_the_flow():
    design = design_of(WITH_MEMORY, "asap7", 800.0)
    assert "create_clock -name clk -period 800 [get_ports clk]" in sdc(design, "ps")
    in_ns = sdc(design, "ns")
    assert "create_clock -name clk -period 0.8 [get_ports clk]" in in_ns
    assert "set_false_path -from [get_ports rst]" in in_ns
    assert "set_load 0.003898 [all_outputs]" in in_ns


def test_a_block_without_registers_has_a_clock_without_a_port():
    text = sdc(design_of("popcount:odd", "asap7", 500.0), "ps")
    assert "create_clock -name clk -period 500\n" in text
    assert "[get_ports clk]" not in text and "rst" not in text


@pytest.mark.parametrize("technology", TECHNOLOGIES)
@pytest.mark.parametrize("name", ["sram_32x64_1r1w", "sram_16x3_1r1w", "sram_256x128_1r1w_g8"])
def test_pins_lie_within_the_macro_and_apart(technology, name):
    macro, cells = parse_macro(name), load_technology(technology)
    width, height = macro_size(macro, cells)
    lef = macro_lef(macro, cells)
    assert f"SIZE {width:.3f} BY {height:.3f} ;" in lef
    pins = re.findall(r"PIN (\S+)\n.*?LAYER (\S+) ;\s+RECT (.*?) ;", lef, re.DOTALL)
    boxes = {pin: tuple(map(float, box.split())) for pin, _, box in pins}
    assert len(boxes) == 1 + sum(macro.inputs.values()) + macro.width + 2
    for x0, y0, x1, y1 in boxes.values():
        assert 0 <= x0 < x1 <= width + 1e-3
        assert 0 <= y0 < y1 <= height + 1e-3
    ordered = sorted(boxes.values())
    for k, (x0, y0, x1, y1) in enumerate(ordered):
        for u0, v0, u1, v1 in ordered[k + 1 :]:
            assert u0 >= x1 or u1 <= x0 or v0 >= y1 or v1 <= y0


def test_an_empty_layout_has_the_outline():
    macro, cells = parse_macro("sram_32x64_1r1w"), load_technology("sky130hd")
    layout = macro_gds(macro, cells)
    kinds, place = [], 0
    while place < len(layout):
        length = int.from_bytes(layout[place : place + 2], "big")
        kinds.append(layout[place + 2])
        if layout[place + 2] == 0x10:
            numbers = layout[place + 4 : place + length]
            corner = [int.from_bytes(numbers[k : k + 4], "big") for k in (16, 20)]
        place += length
    assert (kinds[0], kinds[-1]) == (0x00, 0x04)
    assert corner == [round(1000 * side) for side in macro_size(macro, cells)]


def test_the_command_writes_files(capsys, tmp_path):
    words = ("export", "popcount:odd", "--flow", "orfs", "--out", str(tmp_path), "--json")
    code, text, _ = run(capsys, *words)
    assert code == 0
    assert [path.rpartition("/")[2] for path in json.loads(text)] == [
        "popcount__width_13.v",
        "popcount__width_13.sdc",
        "config.mk",
    ]
    assert {path.name for path in tmp_path.iterdir()} == {
        path.rpartition("/")[2] for path in json.loads(text)
    }


def test_make_reads_the_variables_of_openroad(tmp_path):
    export_block(WITH_MEMORY, "orfs", tmp_path)
    (tmp_path / "Makefile").write_text(
        textwrap.dedent(f"""\
        DESIGN_CONFIG = {tmp_path}/config.mk
        include $(DESIGN_CONFIG)
        files:
        \t@printf '%s\\n' $(VERILOG_FILES) $(SDC_FILE) $(ADDITIONAL_LEFS) $(ADDITIONAL_LIBS)
        """)
    )
    try:
        done = subprocess.run(["make", "files"], cwd=tmp_path, capture_output=True, text=True)
    except FileNotFoundError:
        pytest.skip("to get it: apt-get install make")
    assert done.returncode == 0, done.stderr
    assert {line.rpartition("/")[2] for line in done.stdout.split()} == {
        "figna_aligner.v",
        "figna_aligner.sdc",
        "macros.v",
        "sram_32x64_1r1w.lef",
        "sram_32x64_1r1w.lib",
    }
