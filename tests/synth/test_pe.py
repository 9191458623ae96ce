"""Processing elements in cells: the same bench on the netlist, and what they use."""

import json

import numpy as np
import pytest

from tests.support.claims import claim
from tilewright.cli import main
from tilewright.golden.params.resolve import resolve
from tilewright.sim.calibration import other_choice
from tilewright.sim.pe_units import pe_ratio
from tilewright.studies.pe.compare import compare_in
from tilewright.studies.pe.energy import CLOCK_MHZ, PES, is_fresh_energy, load_energy
from tilewright.studies.pe.workload import KINDS, STREAMS, workload
from tilewright.synth.activity import Activity, UnsupportedCellError, measure
from tilewright.synth.emit import to_rtlil
from tilewright.synth.energy import COMPONENTS, energy_of, wire_capacitance
from tilewright.synth.flow import synthesise
from tilewright.synth.netlist import Instance, Netlist
from tilewright.synth.record import find_record
from tilewright.synth.technology import TECHNOLOGIES, load_technology
from tilewright.verify.netlist import bench_netlist

ASAP7 = load_technology("asap7")
BASELINES = [spec for spec in PES.values() if spec.startswith("pe_")]


def mapped(spec, technology=ASAP7, **options):
    params = resolve(spec)
    return synthesise(to_rtlil(params), params.slug, technology, **options)


@pytest.mark.full
@pytest.mark.parametrize("technology", TECHNOLOGIES)
@pytest.mark.parametrize("spec", [*BASELINES, "figna_aligner"])
def test_every_netlist_passes_the_bench(spec, technology):
    # There a register of the aligner, q, is reset by gates that give not (q or not q). That is 0,
    # but unknown to Icarus Verilog as long as q is; Verilator knows no unknown values.
    blind = (spec, technology) == ("figna_aligner", "sky130hd")
    netlist = mapped(spec, load_technology(technology))
    result = bench_netlist(spec, netlist, simulator="verilator" if blind else "icarus")
    assert result.passed, result.failure


def streams_of(words, bits):
    """(streams, beats) integers as beats of one field."""
    return [
        [sum(int(w >> k & 1) << s for s, w in enumerate(beat)) for k in range(bits)]
        for beat in words.T
    ]


def test_toggles_of_a_register_slice_are_those_of_its_data():
    """Every word passes the output once, so its wires toggle as often as words differ."""
    rng = np.random.default_rng(1)
    words = rng.integers(0, 16, (3, 40))
    netlist = mapped("register_slice:tiny").netlist
    activity = measure(netlist, 3, {"i": streams_of(words, 4)}, range(10, 40))
    assert activity.results["o"] == streams_of(words, 4)
    assert activity.cycles == 30
    # A word is on the output a cycle after it was taken.
    changed = words[:, 9:39] ^ words[:, 8:38]
    for k, net in enumerate(netlist.outputs["o__payload"]):
        assert activity.toggles[net] == int((changed >> k & 1).sum())


def test_a_gate_by_hand():
    """One inverter between a port and a port: all four kinds of energy from the table."""
    cell = ASAP7.cells["INVx1_ASAP7_75t_R"]
    netlist = Netlist("gate", {"a": [2]}, {"y": [3]}, [Instance("u", cell, {"A": 2, "Y": 3})], {})
    activity = Activity(streams=2, cycles=10, toggles={2: 8, 3: 8}, results={})
    energy = energy_of(netlist, ASAP7, activity, period=1000.0)
    wire = wire_capacitance(netlist, ASAP7)
    volts = ASAP7.supply**2 / 2
    assert energy.internal == pytest.approx(4 * cell.energy["Y"])
    loads = cell.inputs["A"] + wire + ASAP7.output_load + wire
    assert energy.switching == pytest.approx(4 * volts * loads)
    assert energy.clock == 0
    assert energy.leakage == pytest.approx(10 * cell.leakage * 1e-3)


def test_a_flip_flop_by_hand():
    cell = ASAP7.cells["DFFHQNx1_ASAP7_75t_R"]
    flop = Instance("u", cell, {"CLK": 2, "D": 3, "QN": 4})
    netlist = Netlist("flop", {"clk": [2], "d": [3]}, {"q": [4]}, [flop], {})
    idle = Activity(streams=1, cycles=5, toggles={}, results={})
    energy = energy_of(netlist, ASAP7, idle, period=1000.0)
    pin = cell.inputs["CLK"] + wire_capacitance(netlist, ASAP7)
    assert energy.clock == pytest.approx(5 * (cell.clock_energy + ASAP7.supply**2 * pin))
    assert energy.internal == energy.switching == 0


def test_latches_are_refused():
    cell = next(c for c in ASAP7.cells.values() if c.state is not None and c.state.latch)
    pins = {pin: k for k, pin in enumerate([*cell.inputs, *cell.outputs], start=2)}
    netlist = Netlist("latch", {}, {}, [Instance("u", cell, pins)], {})
    message = f"^{cell.name}: only flip-flops on the rising edge, without set and clear,"
    with pytest.raises(UnsupportedCellError, match=message):
        measure(netlist, 1, {"i": [[0]]}, range(1))


@pytest.mark.full
def test_three_kinds_of_data_give_three_energies_and_parts_add_up():
    params = resolve("pe_figna:m8,mantissa_bits=4")
    result = mapped("pe_figna:m8,mantissa_bits=4", keep_hierarchy=True)
    totals = {}
    for kind in KINDS:
        asked = workload(params, kind)
        activity = measure(result.netlist, STREAMS, asked.beats, asked.counted)
        assert activity.results["o"] == asked.results, kind
        energy = energy_of(result.netlist, ASAP7, activity, 1e6 / CLOCK_MHZ, result.part_of)
        assert sum(energy.by_part.values()) == pytest.approx(energy.total)
        assert len(energy.by_part) > 2
        totals[kind] = energy.total
    assert totals["zero"] < totals["real"] < totals["random"]


@pytest.mark.parametrize("technology", TECHNOLOGIES)
@pytest.mark.parametrize("spec", PES.values())
def test_energy_records_stand_for_their_element(spec, technology):
    command = f"tilewright compare pe --update-records --block {spec} --tech {technology}"
    assert is_fresh_energy(spec, load_technology(technology)), command
    record = load_energy(spec, load_technology(technology))
    for run in record["runs"].values():
        assert sum(run[c] for c in COMPONENTS) == pytest.approx(run["total"], abs=1e-3)
    tail = next(name for name in record["runs"] if name.startswith("zero")).removeprefix("zero")
    zero, real, random = (
        record["runs"][kind + tail]["total"] for kind in ("zero", "real", "random")
    )
    assert zero < min(real, random) and real != random


@pytest.mark.parametrize("technology", TECHNOLOGIES)
@pytest.mark.parametrize("spec", BASELINES)
def test_both_records_are_of_one_netlist(spec, technology):
    tech = load_technology(technology)
    metrics = find_record(resolve(spec), technology)["metrics"]
    energy = load_energy(spec, tech)["metrics"]
    assert energy == {name: metrics[name]["value"] for name in energy}


@pytest.mark.parametrize("technology", TECHNOLOGIES)
def test_all_baselines_have_the_same_throughput(technology):
    pes = compare_in(load_technology(technology)).pes
    rates = {e.macs_per_cycle for e in pes if e.spec in BASELINES}
    assert rates == {64 / claim("anda.reference_cycles")}
    for e in pes:
        if e.spec.startswith("anda_apu"):
            length = int(e.name.rpartition(" m")[2])
            assert e.macs_per_cycle == pytest.approx(64 / (length + 1), rel=1e-4)
    harmonia = {e.name: e.macs_per_cycle for e in pes if e.spec == PES["Harmonia"]}
    assert harmonia == {"Harmonia m8w4": 32, "Harmonia m8m4": 32, "Harmonia m8m8": 16}


def test_command_prints_pes_and_claims(capsys):
    assert main(["compare", "pe", "--tech", "asap7"]) == 0
    text = capsys.readouterr().out
    assert "FIGNA-M11" in text and "Anda m8" in text and "area of Anda m8 over FIGNA" in text
    assert main(["compare", "pe", "--json"]) == 0
    data = json.loads(capsys.readouterr().out)
    assert [c["technology"] for c in data["comparisons"]] == list(TECHNOLOGIES)
    assert set(data["survival"]) == {"claims", "area_efficiency", "energy_efficiency"}
    first = data["comparisons"][0]["pes"][0]
    assert first["name"] == "FP-FP" and first["area_x"] == first["energy_efficiency_x"] == 1


def test_ratios_are_those_of_the_scoreboard_with_operands_outside():
    """One rule: both take the same baselines, so that the same figure has one value."""
    rows = {row.name: row for row in compare_in(ASAP7).pes}
    with other_choice("outside"):
        for quantity in ("area", "power", "area_efficiency", "energy_efficiency"):
            shown = getattr(rows["Anda m8"], f"{quantity}_x")
            assert shown == pytest.approx(pe_ratio(quantity, "anda-m8", "fp-fp"), rel=1e-3)
