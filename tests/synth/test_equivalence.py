"""Mapped netlists proved equivalent to their RTL."""

from dataclasses import replace

import pytest

from golden.params.resolve import resolve
from synth.emit import to_rtlil
from synth.equivalence import Verdict, check_equivalence, load_equivalence
from synth.flow import Goal, synthesise
from synth.record import load_records
from synth.technology import TECHNOLOGIES, load_technology
from tilewright.bench.pe_energy import ELEMENTS
from tilewright.cli import main

PROVED = {Verdict.PROVED, Verdict.PROVED_FROM_GATES}


def mapped(spec, technology, goal=Goal.AREA):
    params = resolve(spec)
    rtlil = to_rtlil(params, memory_macros=True)
    return rtlil, synthesise(rtlil, params.slug, load_technology(technology), goal).netlist


@pytest.mark.parametrize("technology", TECHNOLOGIES)
@pytest.mark.parametrize(
    ("spec", "verdict"),
    [
        ("popcount:odd", Verdict.PROVED),
        ("queue:tiny", Verdict.PROVED),
        ("float_mul:e4m3,latency=2", Verdict.PROVED),
        ("adder_tree:odd", Verdict.PROVED_FROM_GATES),
    ],
)
def test_a_netlist_is_what_its_rtl_says(spec, technology, verdict):
    found = check_equivalence(*mapped(spec, technology), timeout_s=10)
    assert found.verdict is verdict, found.detail


def test_registers_are_compared():
    rtlil, netlist = mapped("queue:tiny", "asap7")
    found = check_equivalence(rtlil, netlist)
    assert (found.registers, found.outputs) == (netlist.register_bits, netlist.register_bits + 6)


def test_memories_are_cut():
    rtlil, netlist = mapped("figna_aligner:small", "asap7")
    assert netlist.memory_bits > 0
    assert check_equivalence(rtlil, netlist).verdict in PROVED


@pytest.mark.parametrize("technology", TECHNOLOGIES)
def test_a_wrong_gate_is_noticed(technology):
    rtlil, netlist = mapped("queue:tiny", technology)
    place, gate = next(
        (k, i) for k, i in enumerate(netlist.instances) if i.cell.state is None and i.cell.inputs
    )
    wrong = {pin: f"!({function})" for pin, function in gate.cell.outputs.items()}
    instances = list(netlist.instances)
    instances[place] = replace(gate, cell=replace(gate.cell, outputs=wrong))
    broken = replace(netlist, instances=instances)
    assert check_equivalence(rtlil, broken).verdict is Verdict.DIFFERENT


def test_a_register_of_one_side_is_named():
    rtlil, netlist = mapped("queue:tiny", "asap7")
    found = check_equivalence(
        rtlil, replace(netlist, instances=[i for i in netlist.instances if i.cell.state is None])
    )
    assert found.verdict is Verdict.UNMATCHED
    assert found.detail.startswith("only in the RTL: next:")


@pytest.mark.full
@pytest.mark.parametrize("spec", ELEMENTS.values())
def test_elements(spec):
    """Those that are not decided have a bench on their netlist: tests/synth/test_pe.py."""
    found = check_equivalence(*mapped(spec, "asap7"), timeout_s=120)
    assert found.verdict in {*PROVED, Verdict.UNDECIDED}, found.detail


def test_the_committed_table():
    """No netlist differs; what stands there is of the records that are there."""
    records, table = load_records(), load_equivalence()
    assert table
    for name, entry in table.items():
        assert entry["verdict"] != Verdict.DIFFERENT.value, name
        for key in ("rtlil_sha256", "flow_sha256"):
            assert entry[key] == records[name][key], (
                f"{name}: renew with `tilewright synth --prove`"
            )
    proved = sum(entry["verdict"] in {v.value for v in PROVED} for entry in table.values())
    assert proved > 0.8 * len(table)


def test_the_command_prints_what_was_proved(capsys):
    assert main(["synth", "popcount:odd", "--tech", "sky130hd", "--prove"]) == 0
    assert "proved" in capsys.readouterr().out
