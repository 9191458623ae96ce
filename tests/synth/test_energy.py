"""Energy of cells, clocks and memories, by hand and on golden's data."""

import tomllib
from math import sqrt

import numpy as np
import pytest

from tilewright.golden.params.resolve import resolve
from tilewright.studies.pe.workload import per_bit
from tilewright.synth.activity import Activity, measure
from tilewright.synth.emit import to_rtlil
from tilewright.synth.energy import energy_of
from tilewright.synth.flow import synthesise
from tilewright.synth.netlist import Instance, Netlist
from tilewright.synth.technology import TECHNOLOGIES, TECHNOLOGY_FOLDER, load_technology
from tilewright.verify.benches.pe import FignaAlignerBench
from tilewright.verify.stimuli.dots import BENCH_BEATS

ASAP7 = load_technology("asap7")
PERIOD = 4000.0  # ps


def mapped(spec, technology, gating=True):
    params = resolve(spec)
    rtlil = to_rtlil(params, memory_macros=True)
    return synthesise(rtlil, params.slug, technology, gating=gating)


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
