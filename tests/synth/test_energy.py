"""Energy: memories, an independent tool on the same toggles, and where cell energies come from."""

import shutil
import tomllib
from math import sqrt
from pathlib import Path

import numpy as np
import pytest

from tilewright.base.records import load_table
from tilewright.golden.params.resolve import resolve
from tilewright.studies.pe.workload import per_bit
from tilewright.synth.activity import Activity, measure
from tilewright.synth.condense import condense, energy_at, internal_powers
from tilewright.synth.emit import to_rtlil
from tilewright.synth.energy import energy_of, wire_capacitance
from tilewright.synth.energy_check import DESIGNS, ENERGY_DEVIATION, PERIOD, random_activity
from tilewright.synth.flow import synthesise
from tilewright.synth.netlist import Instance, Netlist
from tilewright.synth.opensta import edges_counted, opensta_power, our_power
from tilewright.synth.record import energy_sha256
from tilewright.synth.technology import TECHNOLOGIES, TECHNOLOGY_FOLDER, load_technology
from tilewright.verify.benches.pe import FignaAlignerBench
from tilewright.verify.stimuli.dots import BENCH_BEATS

ASAP7 = load_technology("asap7")
needs_opensta = pytest.mark.skipif(shutil.which("sta") is None, reason="OpenSTA is not installed")


def mapped(spec, technology, gating=True):
    params = resolve(spec)
    rtlil = to_rtlil(params, memory_macros=True)
    return synthesise(rtlil, params.slug, technology, gating=gating)


def assert_tools_agree(spec, technology):
    """Every component within a thousandth: one table, two tools.

    Without clock gates: OpenSTA takes the activity of a clock from its definition, we count what
    the gates let through.
    """
    netlist = mapped(spec, technology, gating=False).netlist
    activity, wire = random_activity(netlist), wire_capacitance(netlist, technology)
    ours = our_power(netlist, technology, activity, PERIOD, wire)
    theirs = opensta_power(netlist, technology, activity, PERIOD, wire)
    for component in ("internal", "switching", "leakage", "total"):
        assert getattr(ours, component) == pytest.approx(getattr(theirs, component), rel=1e-3)
        assert getattr(ours, component) > 0


@needs_opensta
@pytest.mark.full
def test_opensta_agrees_on_a_small_design():
    assert_tools_agree("register_slice:tiny", ASAP7)


@needs_opensta
@pytest.mark.full
@pytest.mark.parametrize("technology", TECHNOLOGIES)
@pytest.mark.parametrize("spec", DESIGNS)
def test_opensta_agrees(spec, technology):
    assert_tools_agree(spec, load_technology(technology))


@needs_opensta
@pytest.mark.full
def test_what_opensta_takes_per_transition():
    """Mean of rise and fall, or (2.0.17) their sum."""
    assert round(edges_counted(), 4) in (1.0, 2.0)


@pytest.mark.parametrize("technology", TECHNOLOGIES)
def test_energies_are_those_of_the_full_library(technology):
    """The committed comparison: OpenSTA, full tables at its slews and loads, the same toggles."""
    record = load_table(ENERGY_DEVIATION)[technology]
    assert record["energy_sha256"] == energy_sha256(technology), (
        "python -m tilewright.synth.energy_check"
    )
    assert record["designs"].keys() == set(DESIGNS)
    for design in record["designs"].values():
        ratio = {c: design["ours"][c] / design["opensta"][c] for c in design["ours"]}
        assert ratio == pytest.approx(design["ratio"], abs=1e-3)
        assert all(0.85 < value < 1.15 for value in ratio.values())


def test_the_page_says_what_the_record_says():
    record = load_table(ENERGY_DEVIATION)
    page = (Path(__file__).parents[2] / "docs" / "synthesis.md").read_text()
    for design in DESIGNS:
        ratios = [record[technology]["designs"][design]["ratio"] for technology in TECHNOLOGIES]
        figures = [f"{r[c]:.3f}" for r in ratios for c in ("internal", "total")]
        assert f"| `{design}` | {' | '.join(figures)} |" in page


LIBRARY = """
library (two) {
  time_unit : "1ps"; capacitive_load_unit (1, ff); leakage_power_unit : "1pW";
  lu_table_template (t) { variable_1 : input_net_transition; index_1 ("0, 100"); }
  cell (INVx1_ASAP7_75t_R) {
    pin (A) { direction : input; }
    pin (Y) { direction : output; function : "!A";
      internal_power () { related_pin : "A"; related_pg_pin : VDD;
        rise_power (t) { values ("4, 4"); } fall_power (t) { values ("-1, -1"); } }
      internal_power () { related_pin : "A"; related_pg_pin : VSS;
        rise_power (t) { values ("-1, -1"); } fall_power (t) { values ("4, 4"); } } } }
  cell (DFFHQNx1_ASAP7_75t_R) {
    pin (CLK) { direction : input;
      internal_power () { when : "D * QN"; rise_power (t) { values ("0, 0"); }
        fall_power (t) { values ("9, 9"); } }
      internal_power () { when : "D * !QN"; rise_power (t) { values ("5, 5"); }
        fall_power (t) { values ("6, 6"); } } }
    pin (D) { direction : input;
      internal_power () { when : "CLK"; rise_power (t) { values ("0, 0"); }
        fall_power (t) { values ("1, 1"); } }
      internal_power () { when : "!CLK"; rise_power (t) { values ("3, 3"); }
        fall_power (t) { values ("4, 4"); } } }
    pin (QN) { direction : output; function : "IQN";
      internal_power () { related_pin : "CLK"; rise_power (t) { values ("10, 10"); }
        fall_power (t) { values ("12, 12"); } } } }
}
"""


def test_a_library_condensed(tmp_path):
    """Supplies summed, quiet clock edges apart, the edge that changes the state counted once."""
    path = tmp_path / "two.lib"
    path.write_text(LIBRARY)
    powers = internal_powers([path], ASAP7)
    inverter, flop = (ASAP7.cells[f"{name}_ASAP7_75t_R"] for name in ("INVx1", "DFFHQNx1"))
    assert energy_at(inverter, powers[inverter.name], 20.0, 1.0) == ({"Y": 3.0}, {}, 0.0)
    assert energy_at(flop, powers[flop.name], 20.0, 1.0) == ({"QN": 6.0}, {"D": 3.5}, 11.0)
    assert condense(flop, powers[flop.name], ASAP7) == {
        "clock_energy": "11",
        "input_energy": "{ D = 3.5 }",
        "energy": "{ QN = 6 }",
    }


@pytest.mark.parametrize("technology", TECHNOLOGIES)
def test_every_cell_with_timing_has_energies(technology):
    for cell in load_technology(technology).cells.values():
        if cell.arcs:
            assert cell.energy.keys() == cell.outputs.keys()
            assert all(value > 0 for value in cell.energy.values())
        if cell.state is not None and not cell.state.latch:
            assert cell.clock_energy > 0
            assert cell.input_energy.keys() == cell.inputs.keys() - {cell.clock_pin}


def test_clock_that_is_needed():
    """A flip-flop that changes in 3 of 10 cycles."""
    flop = Instance("r", ASAP7.cells["DFFHQNx1_ASAP7_75t_R"], {"CLK": 2, "D": 3, "QN": 4})
    netlist = Netlist("one", {"clk": [2], "d": [3]}, {"q": [4]}, [flop], {})
    energy = energy_of(netlist, ASAP7, Activity(1, 10, {3: 4, 4: 3}, {}), PERIOD)
    assert energy.clock > 0
    assert energy.needed_clock == pytest.approx(0.3 * energy.clock)
    assert energy.least == pytest.approx(energy.total - 0.7 * energy.clock)


def test_a_netlist_with_a_memory():
    """Its results are golden's; every beat is one write and one read."""
    params = resolve("figna_aligner:small")
    streams, beats, rng = 5, 12 * BENCH_BEATS, np.random.default_rng(3)
    columns = [FignaAlignerBench().stimulus(params, rng, beats)["i"] for _ in range(streams)]
    port, out = params.inputs[0], params.outputs[0]
    together = {name: np.stack([c[name] for c in columns], axis=1) for name in columns[0]}
    netlist = mapped("figna_aligner:small", ASAP7).netlist
    counted = range(2 * BENCH_BEATS, 10 * BENCH_BEATS)
    activity = measure(netlist, streams, {"i": per_bit(port, together)}, counted)
    wanted = [FignaAlignerBench().expected(params, {"i": c})["o"] for c in columns]
    whole = {name: np.stack([w[name] for w in wanted], axis=1) for name in wanted[0]}
    assert activity.results["o"] == per_bit(out, whole)
    ((name, (reads, writes)),) = activity.accesses.items()
    assert reads == writes == streams * len(counted)
    (macro,) = (i.cell for i in netlist.instances if i.name == name)
    energy = energy_of(netlist, ASAP7, activity, PERIOD)
    assert energy.memory == pytest.approx(len(counted) * (macro.read_energy + macro.write_energy))


def test_energy_of_an_access_by_hand():
    """16 words of 4 bits in 4 rows of 16 columns."""
    memory = ASAP7.memory
    read, write = memory.access_energy(16, 4, supply=0.7)
    common = 0.49 * memory.word_line * 16 + 4 * memory.latch + 4 * memory.address
    line = 4 * memory.bit_line * 0.7
    assert read == pytest.approx(common + 16 * line * memory.swing)
    assert write == pytest.approx(common + 12 * line * memory.swing + 4 * line * 0.7)


def test_deep_memories_are_banks():
    memory = ASAP7.memory
    deepest = memory.valid_words[1]
    one, other = (memory.access_energy(depth, 32, 0.7) for depth in (deepest, 4 * deepest))
    assert other[0] - one[0] == pytest.approx(2 * memory.address)


@pytest.mark.parametrize(
    ("name", "transistors", "pitch", "latch", "inverter"),
    [
        ("asap7", 6, (0.27, 0.108), "DFFHQNx1_ASAP7_75t_R", "INVx1_ASAP7_75t_R"),
        ("sky130hd", 4, None, "sky130_fd_sc_hd__dfxtp_1", "sky130_fd_sc_hd__inv_1"),
    ],
)
def test_lines_of_memories_are_as_the_table_says(name, transistors, pitch, latch, inverter):
    """The comments above ``[memory]`` in numbers."""
    technology = load_technology(name)
    memory, cells = technology.memory, technology.cells
    column, row = pitch or (sqrt(memory.per_bit), sqrt(memory.per_bit))
    load, wire = technology.fanout_of_four_load, technology.wire_capacitance
    gate = load / 4 / transistors
    assert memory.word_line == pytest.approx(2 * gate + column * wire, rel=1e-3)
    assert memory.bit_line == pytest.approx(gate / 2 + row * wire, rel=1e-3)
    assert memory.swing == pytest.approx(0.15 * technology.supply)
    flop = cells[latch]
    assert memory.latch == pytest.approx(flop.clock_energy + sum(flop.energy.values()), rel=1e-3)
    stage = cells[inverter].energy["Y"] + load * technology.supply**2 / 2
    assert memory.address == pytest.approx(4 * stage, rel=1e-3)


@pytest.mark.parametrize("name", TECHNOLOGIES)
def test_published_sizes_are_those_of_the_list(name):
    table = tomllib.loads((TECHNOLOGY_FOLDER / f"{name}.toml").read_text())
    layouts = [entry for entry in table["sram"] if entry["basis"] == "layout"]
    memory = load_technology(name).memory
    for key, valid in (("words", memory.valid_words), ("bits", memory.valid_bits)):
        sizes = [entry[key] for entry in layouts]
        assert valid == (min(sizes), max(sizes))
    assert not memory.is_published_size(32, 513)
