"""Mapped netlists proved equivalent to their RTL."""

import json
import re
from dataclasses import replace

import pytest

from tilewright.cli import main
from tilewright.golden.params.resolve import resolve
from tilewright.studies.pe.energy import PES
from tilewright.synth.emit import to_rtlil
from tilewright.synth.equivalence import Verdict, check_equivalence
from tilewright.synth.flow import synthesise
from tilewright.synth.record import SYNTHESIS, load_kind
from tilewright.synth.technology import TECHNOLOGIES, load_technology
from tilewright.verify import netlist as netlist_bench

PROVED = {Verdict.PROVED, Verdict.PROVED_FROM_GATES}


def mapped(spec, technology):
    params = resolve(spec)
    rtlil = to_rtlil(params, memory_macros=True)
    return rtlil, synthesise(rtlil, params.slug, load_technology(technology)).netlist


@pytest.mark.parametrize(
    ("spec", "verdict", "technology"),
    [
        ("popcount:odd", Verdict.PROVED, "sky130hd"),
        ("queue:tiny", Verdict.PROVED, "asap7"),
        ("float_mul:e4m3,latency=2", Verdict.PROVED, "asap7"),
        # The first proof takes all the time that it is given, whatever the cells.
        ("adder_tree:odd", Verdict.PROVED_FROM_GATES, "asap7"),
        pytest.param(
            *("adder_tree:odd", Verdict.PROVED_FROM_GATES, "sky130hd"), marks=pytest.mark.full
        ),
    ],
)
def test_a_netlist_is_what_its_rtl_says(spec, verdict, technology):
    found = check_equivalence(*mapped(spec, technology), seconds=4)
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
@pytest.mark.parametrize("spec", PES.values())
def test_elements(spec):
    found = check_equivalence(*mapped(spec, "asap7"))
    assert found.verdict in PROVED, found.detail


def test_every_record_is_proved_or_benched():
    command = "renew with `tilewright synth --all --prove --update-records`"
    for name, record in load_kind(SYNTHESIS).items():
        assert "proof" in record, f"{name}: {command}"
        assert Verdict(record["proof"]["verdict"]) in {*PROVED, Verdict.BENCHED}, name


def test_a_bench_takes_the_place_of_a_proof(monkeypatch, capsys):
    """Nothing decided: the bench has the last word, on the netlist."""
    from tilewright.synth import equivalence

    monkeypatch.setattr(equivalence, "_compare", lambda folder, seconds: Verdict.UNDECIDED)
    monkeypatch.setattr(equivalence, "get_or_make", lambda ingredients, make: make())
    argv = ["synth", "popcount:odd", "--tech", "sky130hd", "--prove"]
    assert main(argv) == 0
    assert re.search(
        r"passes its bench .* not decided; \d+ cases, \d+ cycles", capsys.readouterr().out
    )
    models = netlist_bench.cell_models
    monkeypatch.setattr(
        netlist_bench,
        "cell_models",
        lambda *given: models(*given).replace("assign SUM = ", "assign SUM = ~"),
    )
    assert main(argv) == 0
    assert re.search(r"different .* bench: ", capsys.readouterr().out)


def test_what_was_found_is_cached(monkeypatch, tmp_path):
    from tilewright.synth import equivalence

    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    asked = mapped("popcount:odd", "asap7")
    first = check_equivalence(*asked)
    monkeypatch.setattr(equivalence, "_compare", None)  # would fail if it were called
    assert check_equivalence(*asked) == first
    wrong = mapped("popcount:default", "asap7")
    with pytest.raises(TypeError):
        check_equivalence(*wrong)


def test_the_command_tells_what_was_proved(capsys):
    argv = ["synth", "popcount:odd", "--tech", "sky130hd", "--prove"]
    assert main([*argv, "--json"]) == 0
    (result,) = json.loads(capsys.readouterr().out)
    assert result["proof"]["verdict"] == "proved"
