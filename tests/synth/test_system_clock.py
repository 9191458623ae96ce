"""Timing of whole accelerators: the same answers as of a flat netlist, at any size."""

import json
from pathlib import Path

import numpy as np
import pytest

from tilewright.cli import main
from tilewright.golden.params.resolve import resolve
from tilewright.synth.emit import to_rtlil
from tilewright.synth.expand import expand
from tilewright.synth.flow import Goal, synthesise
from tilewright.synth.record import is_of_this_flow, sha256
from tilewright.synth.system import SYSTEMS, load_system
from tilewright.synth.technology import load_technology
from tilewright.synth.whole_timing import (
    FILL,
    insert_buffers,
    load_clock,
    netlist_clock,
    system_clock,
    time_whole,
)
from tilewright.synth.yosys import SynthesisError

ASAP7 = load_technology("asap7")
INVERTER, BUFFER, FLIP_FLOP = (f"{c}_ASAP7_75t_R" for c in ("INVx1", "BUFx2", "DFFHQNx1"))


@pytest.mark.parametrize("technology", ["asap7", pytest.param("sky130hd", marks=pytest.mark.full)])
def test_paths_are_those_of_the_flat_netlist(technology):
    """Modules in modules, clock gates, both kinds of paths at the edge: nothing differs."""
    table = load_technology(technology)
    params = resolve("anda_mxu:small")
    rtlil = to_rtlil(params, memory_macros=True)
    flat = synthesise(rtlil, params.slug, table, keep_hierarchy=True)
    whole = netlist_clock(rtlil, params.slug, table, Goal.AREA)
    assert whole.buffers.cells == 0
    assert whole.cells == len(flat.netlist.instances)
    assert whole.logic == pytest.approx(flat.netlist.area)
    assert list(whole.timing.paths) == list(flat.paths)
    for kind, path in flat.paths.items():
        assert whole.timing.paths[kind].delay == pytest.approx(path.delay, rel=1e-9), kind
        assert len(whole.timing.paths[kind].steps) == len(path.steps)
    path = whole.timing.paths["register_to_register"]
    assert [s.arrival for s in path.steps] == sorted(s.arrival for s in path.steps)
    assert path.delay == pytest.approx(path.steps[-1].arrival + path.setup)
    assert all(s.cell for s in path.steps)
    assert max(whole.timing.by_part.values()) == pytest.approx(
        flat.paths["register_to_register"].delay
    )


def test_the_smallest_goal_that_fits_is_taken():
    params = resolve("prefix_sum")
    rtlil = to_rtlil(params)
    slow = system_clock(rtlil, params.slug, ASAP7, 1e6)
    fast = system_clock(rtlil, params.slug, ASAP7, 1.0)
    assert slow.goal is Goal.AREA and slow.others == ()
    assert fast.delay <= slow.delay
    assert {fast.goal, *(other.goal for other in fast.others)} == set(Goal)
    assert all(other.delay >= fast.delay for other in fast.others)


def bits(direction, *nets):
    return {"direction": direction, "bits": list(nets)}


def module(ports, cells):
    entries = {
        name: {"type": kind, "connections": {pin: [net] for pin, net in pins.items()}}
        for name, (kind, pins) in cells.items()
    }
    return {"ports": ports, "cells": entries, "netnames": {}}


def fan_out(count):
    """A register that drives ``count`` others, in a module of their own each."""
    sink = module(
        {"d": bits("input", 2), "clk": bits("input", 3)},
        {"r$_DFF_P_": (FLIP_FLOP, {"D": 2, "CLK": 3, "QN": 4})},
    )
    cells = {"first$_DFF_P_": (FLIP_FLOP, {"D": 2, "CLK": 3, "QN": 4})}
    cells |= {f"sink_{k}": ("sink", {"d": 4, "clk": 3}) for k in range(count)}
    top = module({"x": bits("input", 2), "clk": bits("input", 3)}, cells)
    return expand({"top": top, "sink": sink}, "top", ASAP7, {})


def test_a_net_that_is_too_heavy_for_its_driver_gets_buffers():
    light, heavy = fan_out(4), fan_out(5000)
    assert insert_buffers(light, ASAP7).cells == 0
    before = time_whole(heavy, ASAP7).period
    added = insert_buffers(heavy, ASAP7)
    after = time_whole(heavy, ASAP7)
    assert added.nets == 1 and added.cells > 1
    assert after.period < before / 10
    loads = np.bincount(heavy.pin_net, weights=heavy.pin_load)
    clock = heavy.inputs["clk"][0]
    strongest = max(cell.max_load for cell in ASAP7.cells.values() if cell.name.startswith("BUF"))
    assert all(load <= FILL * strongest for net, load in enumerate(loads) if net != clock)
    # Every register still hangs on the first one.
    (path,) = (p for kind, p in after.paths.items() if kind == "register_to_register")
    assert path.start == "first" and path.end.startswith("sink_")
    assert [step.cell[:3] for step in path.steps] == ["DFF", "BUF"]


def test_a_module_of_wires_connects_the_nets_outside():
    wires = module({"a": bits("input", 2), "b": bits("output", 2)}, {})
    top = module(
        {"x": bits("input", 2), "y": bits("output", 5)},
        {
            "before": (INVERTER, {"A": 2, "Y": 3}),
            "between": ("wires", {"a": 3, "b": 4}),
            "after": (INVERTER, {"A": 4, "Y": 5}),
        },
    )
    design = expand({"top": top, "wires": wires}, "top", ASAP7, {})
    path = time_whole(design, ASAP7).paths["input_to_output"]
    assert [step.cell for step in path.steps] == ["", INVERTER, INVERTER]


def test_constants_start_nothing():
    top = module({"y": bits("output", 2)}, {"i": (INVERTER, {"A": "1", "Y": 2})})
    assert time_whole(expand({"top": top}, "top", ASAP7, {}), ASAP7).paths == {}


def test_a_loop_is_named():
    ring = {"a": (INVERTER, {"A": 2, "Y": 3}), "b": (BUFFER, {"A": 3, "Y": 2})}
    top = module({"y": bits("output", 2)}, ring)
    top["netnames"] = {"around": {"hide_name": 0, "bits": [2]}}
    with pytest.raises(SynthesisError, match=r"^top: combinational loop through (around|y)$"):
        time_whole(expand({"top": top}, "top", ASAP7, {}), ASAP7)


def test_an_unknown_module_is_named():
    top = module({"y": bits("output", 2)}, {"a": ("toaster", {"Y": 2})})
    with pytest.raises(SynthesisError, match=r"^top: neither a cell nor a module is called toast"):
        expand({"top": top}, "top", ASAP7, {})


def test_the_command_says_whether_the_clock_is_met(capsys):
    options = ["--system", "--tech", "asap7", "--clock"]
    assert main(["synth", "prefix_sum", *options, "1"]) == 0
    assert "misses 1 ps" in capsys.readouterr().out
    assert main(["synth", "prefix_sum", *options, "1e6", "--json"]) == 0
    (record,) = json.loads(capsys.readouterr().out)
    assert record["goal"] == "area" and record["period_ps"] < 1e6 and record["missed"] == {}


@pytest.mark.parametrize("spec", SYSTEMS)
def test_the_page_has_the_clocks(spec):
    record, areas = load_clock(spec, "asap7"), load_system(spec, "asap7")
    page = " ".join((Path(__file__).parents[2] / "docs" / "sweeps.md").read_text().split())
    assert record["goal"] == "balanced" and record["period_ps"] <= record["wanted_ps"]
    megahertz = 1e6 / record["period_ps"]
    cells = f"{spec.capitalize()}'s {record['cells']:,} cells"
    assert f"{cells} hold {megahertz:.0f} MHz before placement" in page
    logic = sum(part["logic"] for part in areas["parts"].values())
    assert f"{record['logic_um2'] / 1e6:.3f} mm² instead of {logic / 1e6:.3f}" in page


@pytest.mark.full
@pytest.mark.parametrize("spec", SYSTEMS)
def test_records_are_of_the_present_design(spec):
    digest = sha256(to_rtlil(resolve(spec), memory_macros=True))
    record = load_clock(spec, "asap7")
    assert record["system_rtlil_sha256"] == digest
    assert is_of_this_flow(record, "asap7")
