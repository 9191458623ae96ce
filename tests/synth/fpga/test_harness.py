"""Registers around a block for place and route."""

import json

import pytest

from tilewright.golden.params.resolve import resolve
from tilewright.synth.emit import to_rtlil
from tilewright.synth.fpga.harness import GIVEN, TAKEN, TOP, harness_verilog, ports_of
from tilewright.synth.yosys import yosys_files


@pytest.mark.parametrize("spec", ["popcount:odd", "queue:tiny", "register_slice"])
def test_every_bit_of_a_port_has_a_register_and_nothing_else_is_added(spec):
    params = resolve(spec)
    rtlil = to_rtlil(params)
    ports = ports_of(rtlil, params.slug)
    inputs = sum(p.bits for p in ports if p.direction == "input" and p.name != "clk")
    outputs = sum(p.bits for p in ports if p.direction == "output")
    assert outputs and inputs
    files = {"harness.v": harness_verilog(rtlil, params.slug), "top.il": rtlil}
    commands = ["read_verilog harness.v", "read_rtlil top.il", f"hierarchy -check -top {TOP}"]
    made = yosys_files([*commands, "proc", "write_json out.json"], files, ("out.json",))
    module = json.loads(made["out.json"])["modules"][TOP]
    assert len(module["netnames"][GIVEN]["bits"]) == inputs
    assert len(module["netnames"][TAKEN]["bits"]) == outputs
    assert {p: v["direction"] for p, v in module["ports"].items()} == {
        "clk": "input",
        "serial": "input",
    }
    kinds = sorted(c["type"] for c in module["cells"].values() if c["type"] != "$scopeinfo")
    assert kinds == sorted(["$dff", "$dff", params.slug])
    block = next(c for c in module["cells"].values() if c["type"] == params.slug)
    assert block["connections"].keys() == {p.name for p in ports}
    joined = [b for p in ports if p.direction == "output" for b in block["connections"][p.name]]
    assert len(set(joined)) == outputs
