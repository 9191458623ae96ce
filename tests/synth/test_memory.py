"""Memories as macros: area and access against published ones, timing, and what they do."""

import tomllib
from dataclasses import replace
from pathlib import Path

import pytest
from amaranth.back import rtlil

from tilewright.hw.sram import BlackBoxMemories, Sram
from tilewright.synth.cell_models import cell_models
from tilewright.synth.emit import verilog_from_rtlil
from tilewright.synth.flow import synthesise
from tilewright.synth.liberty import to_liberty
from tilewright.synth.liberty_reader import read_liberty
from tilewright.synth.memory import find_macros, parse_macro
from tilewright.synth.technology import TECHNOLOGIES, load_technology
from tilewright.synth.yosys import SynthesisError, run_yosys

TECH = Path(__file__).parents[2] / "synth" / "tech"


def published(name, basis):
    table = tomllib.loads((TECH / f"{name}.toml").read_text())
    return [entry for entry in table["sram"] if entry["basis"] == basis]


def test_asap7_model_follows_the_layouts():
    """Their cells have one port; the largest is wider than one macro of ours."""
    model = replace(load_technology("asap7").memory, two_port=1.0, max_bits=80)
    layouts = published("asap7", "layout")
    assert len(layouts) == 7
    for entry in layouts:
        size = entry["words"], entry["bits"]
        assert model.area(*size) == pytest.approx(entry["area"], rel=0.04)
        assert model.access_time(*size) == pytest.approx(entry["access_ps"], rel=0.04)


def test_sky130_model_lies_among_the_layouts():
    model = load_technology("sky130hd").memory
    layouts = published("sky130hd", "layout")
    assert len(layouts) == 5
    for entry in layouts:
        area = model.area(entry["words"], entry["bits"])
        assert area == pytest.approx(entry["area"], rel=0.36)


def macro_rtlil(depth, width, granularity=None):
    memory = Sram(depth, width, granularity)
    return rtlil.convert(memory, name="top", platform=BlackBoxMemories(), emit_src=False)


@pytest.mark.parametrize("technology", TECHNOLOGIES)
def test_a_macro_is_area_and_timing(technology):
    cells = load_technology(technology)
    result = synthesise(macro_rtlil(32, 48, 8), "top", cells)
    netlist = result.netlist
    assert netlist.cell_counts == {"sram_32x48_1r1w_g8": 1}
    assert netlist.area == netlist.memory_area == cells.memory.area(32, 48)
    assert (netlist.memory_bits, netlist.register_bits) == (32 * 48, 0)
    read, write = result.paths["register_to_output"], result.paths["input_to_register"]
    assert read.delay > cells.memory.access_time(32, 48)
    assert (read.start, write.end) == ("macro", "macro")
    assert write.setup == cells.memory.setup


def test_macros_are_found_once():
    (macro,) = find_macros(macro_rtlil(33, 6, 2))
    assert (macro.name, macro.depth, macro.width, macro.granularity) == (
        "sram_33x6_1r1w_g2",
        33,
        6,
        2,
    )
    assert macro.inputs["write_address"] == 6


def test_unknown_macro():
    with pytest.raises(SynthesisError, match=r"^memory macro 'sram_big' is not called as hw\.sram"):
        parse_macro("sram_big")


def test_a_users_library_has_no_memories(tmp_path):
    path = tmp_path / "cells.lib"
    path.write_text(to_liberty(load_technology("asap7")))
    message = r"^cells\.lib has no model of memories, as sram_32x8_1r1w needs$"
    with pytest.raises(SynthesisError, match=message):
        synthesise(macro_rtlil(32, 8), "top", read_liberty([path]))


@pytest.mark.parametrize("granularity", [None, 2])
def test_the_macros_model_is_the_memory(granularity, tmp_path):
    """Proved for eight cycles of all inputs, for three words of four bits."""
    memory = verilog_from_rtlil(rtlil.convert(Sram(3, 4, granularity), name="gold", emit_src=False))
    macro = verilog_from_rtlil(
        rtlil.convert(
            Sram(3, 4, granularity), name="gate", platform=BlackBoxMemories(), emit_src=False
        )
    )
    (kind,) = find_macros(macro_rtlil(3, 4, granularity))
    (tmp_path / "both.v").write_text(
        memory + macro + cell_models(load_technology("asap7"), [kind.name])
    )
    commands = [
        "read_verilog -sv both.v",
        "hierarchy",
        "proc",
        "flatten",
        "memory",
        "opt_clean",
        "miter -equiv -flatten gold gate miter",
        "sat -verify -seq 8 -set-init-zero -prove trigger 0 miter",
    ]
    log = run_yosys(commands, tmp_path)
    assert "SUCCESS!" in log
