"""Energy of cells, clocks and memories, by hand and on golden's data."""

import numpy as np
import pytest

from tilewright.golden.params.resolve import resolve
from tilewright.studies.pe.workload import per_bit
from tilewright.synth.activity import Activity, measure
from tilewright.synth.emit import to_rtlil
from tilewright.synth.energy import energy_of
from tilewright.synth.flow import synthesise
from tilewright.synth.netlist import Instance, Netlist
from tilewright.synth.technology import TECHNOLOGIES, load_technology
from tilewright.verify import stream_bench_of
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
    bench = stream_bench_of(params)
    columns = [bench.stimulus(params, rng, beats)["i"] for _ in range(streams)]
    port, out = params.inputs[0], params.outputs[0]
    together = {name: np.stack([c[name] for c in columns], axis=1) for name in columns[0]}
    netlist = mapped("figna_aligner:small", ASAP7).netlist
    counted = range(2 * BENCH_BEATS, 10 * BENCH_BEATS)
    activity = measure(netlist, streams, {"i": per_bit(port, together)}, counted)
    wanted = [bench.expected(params, {"i": c})["o"] for c in columns]
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
