"""nextpnr's report, read from a small one that is written here in its form."""

import pytest

from tilewright.synth.fpga.route import Use, read_report

FLOP, LUT = "block.sum_TRELLIS_FF_Q", "taken_TRELLIS_FF_Q_3_DI_LUT4_Z"
CARRY = "block.sum_CCU2C_S0"
KINDS = {FLOP: "TRELLIS_FF", LUT: "LUT4", CARRY: "CCU2C", "taken_TRELLIS_FF_Q_3": "TRELLIS_FF"}


def through(cell, kind, delay):
    return {"type": kind, "delay": delay, "from": {"cell": cell}, "to": {"cell": cell}}


def along(net, source, target, delay):
    ends = {"from": {"cell": source}, "to": {"cell": target}}
    return {"type": "routing", "delay": delay, "net": net, **ends}


def report():
    path = [
        through(FLOP, "clk-to-q", 0.5),
        along("block.sum", FLOP, f"{CARRY}$CCU2_COMB1", 0.75),
        through(f"{CARRY}$CCU2_COMB1", "logic", 0.25),
        along("s", CARRY, LUT, 1.0),
        through(LUT, "logic", 0.25),
        along("taken_DI", LUT, "taken_TRELLIS_FF_Q_3", 0.25),
        through("taken_TRELLIS_FF_Q_3", "setup", 0.0),
    ]
    pin = [{"type": "source", "delay": 9.0, "from": {"cell": "serial"}, "to": {"cell": "serial"}}]
    return {
        "fmax": {"clk$glb": {"achieved": 333.3, "constraint": 100}},
        "critical_paths": [
            {"from": "<async>", "to": "posedge clk$glb", "path": pin},
            {"from": "posedge clk$glb", "to": "posedge clk$glb", "path": path},
        ],
        "utilization": {
            "TRELLIS_FF": {"used": 20, "available": 80},
            "DP16KD": {"used": 0, "available": 5},
        },
    }


def test_the_longest_path_is_between_registers():
    found = read_report(report(), KINDS, {})
    assert (found.mhz, found.path.start, found.path.end) == (333.3, "block.sum", "taken")
    assert [step.cell for step in found.path.steps] == ["TRELLIS_FF", "CCU2C", "LUT4", "TRELLIS_FF"]
    assert [step.signal for step in found.path.steps] == ["block.sum", "s", "taken_DI", ""]
    assert (found.path.logic_ns, found.path.routing_ns, found.path.delay_ns) == (1.0, 2.0, 3.0)


def test_only_what_is_used_is_told():
    assert read_report(report(), KINDS, {}).uses == {"TRELLIS_FF": Use(20, 80)}


def test_a_design_with_two_clocks_is_refused():
    two = report()
    two["fmax"]["other"] = two["fmax"]["clk$glb"]
    with pytest.raises(ValueError, match=r"^the design has 2 clocks in nextpnr's report, not one$"):
        read_report(two, KINDS, {})


def test_registers_without_a_name_are_told_by_what_they_hold():
    kinds = {"$auto$ff.cc:1$2": "CC_DFF", "$abc$3": "CC_LUT2"}
    path = [
        through("$auto$ff.cc:1$2", "clk-skew", -0.25),
        through("$auto$ff.cc:1$2", "clk-to-q", 0.5),
        along("given[1]", "$auto$ff.cc:1$2", "$abc$3", 1.0),
        through("$abc$3$lt", "logic", 0.5),
        through("$auto$ff.cc:1$2", "setup", 0.25),
    ]
    clock = "posedge $iopadmap$clk"
    made = report() | {"critical_paths": [{"from": clock, "to": clock, "path": path}]}
    found = read_report(made, kinds, {"$auto$ff.cc:1$2": "given"}).path
    assert (found.start, found.end, found.delay_ns) == ("given", "given", 2.0)
    assert [step.cell for step in found.steps] == ["CC_DFF", "CC_LUT2", "CC_DFF"]
