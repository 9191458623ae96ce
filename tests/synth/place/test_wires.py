"""Wires: lengths against Steiner trees, Elmore delays by hand, timing with and without them."""

import itertools
from dataclasses import replace

import numpy as np
import pytest

from tilewright.synth.place.clock_tree import clock_tree
from tilewright.synth.place.layout import congestion_of
from tilewright.synth.place.repair import Buffer, Sink, best_tree, repair
from tilewright.synth.place.rules import buffers, load_rules, sizes
from tilewright.synth.place.timing import Timing
from tilewright.synth.place.wires import _elmore, _trees, steiner_factor
from tilewright.synth.technology import load_technology
from tilewright.synth.timing import longest_paths


def test_the_factor_grows_with_pins():
    factors = [steiner_factor(pins) for pins in range(2, 200)]
    assert factors[0] == 1.0
    assert all(a <= b for a, b in itertools.pairwise(factors))


def test_elmore_by_hand():
    """A driver, a sink 10 um on, another 5 um behind it."""
    rules = load_rules("asap7")
    sources, targets, lengths = _trees(np.array([[0.0, 10.0, 15.0]]), np.zeros((1, 3)))
    assert (sources.tolist(), targets.tolist()) == ([[0, 1]], [[1, 2]])
    assert lengths.tolist() == [[10.0, 5.0]]
    (found,) = _elmore(sources, targets, lengths, np.array([[0.0, 2.0, 3.0]]), rules)
    r, c = rules.ohm_per_um, rules.ff_per_um
    first = 10 * r * (10 * c / 2 + 2 + 5 * c + 3) * 1e-3
    assert found[1] == pytest.approx(first)
    assert found[2] == pytest.approx(first + 5 * r * (5 * c / 2 + 3) * 1e-3)


@pytest.mark.parametrize("block", ["popcount", "queue"])
def test_without_wires_the_delay_is_that_of_synthesis(block, request):
    placed = request.getfixturevalue(block)
    netlist, technology = placed.synthesis.netlist, placed.layout.technology
    expected = max(path.delay for path in longest_paths(netlist, technology).values())
    found = Timing(netlist, technology, placed.placed.wiring, None)
    assert found.delay == expected == placed.delay_before


@pytest.mark.parametrize("block", ["popcount", "queue"])
def test_wires_cost_and_repair_never_makes_it_worse(block, request):
    placed = request.getfixturevalue(block)
    assert placed.delay_before < placed.delay_placed
    assert placed.delay <= placed.delay_placed
    assert min(placed.placed.timing.slacks.values()) == pytest.approx(0.0, abs=1e-6)


def test_repair_keeps_the_function(queue):
    """Sizes keep pins and function; without buffers both netlists have the same nets."""
    kinds = {cell.name for cell in buffers(queue.layout.technology)}

    def without_buffers(netlist):
        source = {}
        for buffer in netlist.instances:
            if buffer.cell.name in kinds:
                (pin,), (out,) = buffer.cell.inputs, buffer.cell.outputs
                source[buffer.pins[out]] = buffer.pins[pin]

        def origin(net):
            while net in source:
                net = source[net]
            return net

        cells = {
            i.name: (i.cell.outputs, {pin: origin(net) for pin, net in i.pins.items()})
            for i in netlist.instances
            if i.cell.name not in kinds
        }
        return cells, {p: [origin(n) for n in nets] for p, nets in netlist.outputs.items()}

    before, after = queue.synthesis.netlist, queue.layout.netlist
    assert without_buffers(after) == without_buffers(before)
    names = [{i.name for i in netlist.instances} for netlist in (before, after)]
    assert queue.repaired.buffers == len(names[1] - names[0]) > 0
    assert queue.repaired.removed == len(names[0] - names[1])


def test_repair_shortens_a_path_that_was_made_weak(queue):
    """The smallest cells everywhere leave repair something to do."""
    families = sizes(queue.layout.technology)
    netlist = queue.placed.netlist
    weak = [
        replace(i, cell=families[i.cell.name][0] if i.cell.name in families else i.cell)
        for i in netlist.instances
    ]
    layout = replace(queue.placed, netlist=replace(netlist, instances=weak))
    assert repair(layout).layout.timing.delay < layout.timing.delay


def test_the_clock_reaches_every_register(queue, popcount):
    tree = clock_tree(queue.layout)
    assert tree.registers == queue.layout.netlist.register_bits
    assert tree.buffers >= tree.registers / 25
    assert clock_tree(popcount.layout) is None


def test_the_clock_tree_is_balanced(queue):
    """Of more than three levels' delay less than 3% is skew; the clock that holds has it in it."""
    tree = clock_tree(queue.layout)
    assert tree.levels >= 2 and tree.latency > 40
    assert 0 <= tree.skew < 0.03 * tree.latency
    assert queue.period == queue.delay + tree.skew


def test_branches_of_a_clock_tree_are_matched(queue):
    """Registers far in a corner make a branch longer; loads on the others keep the skew small."""
    layout = queue.layout
    registers = [k for k, i in enumerate(layout.netlist.instances) if i.cell.clock_pin]
    x = layout.x.copy()
    x[registers[:8]] += 40 * layout.floorplan.width
    tree = clock_tree(replace(layout, x=x))
    assert tree.length > 2 * clock_tree(layout).length
    assert tree.skew < 0.1 * tree.latency


def test_a_long_wire_gets_repeaters_and_a_patient_sink_a_buffer():
    technology, rules = load_technology("asap7"), load_rules("asap7")
    choices = buffers(technology)

    def count(plan):
        if isinstance(plan, Buffer):
            return 1 + count(plan.behind)
        return 0 if isinstance(plan, Sink) else sum(map(count, plan))

    def tree(*sinks, urgent=1e9):
        return best_tree((0.0, 0.0), 2.0, sinks, urgent, choices, rules, technology.clock_slew)

    near, far = Sink(1, 0, 5.0, 0.0, 0.5, 0.0), Sink(1, 1, 600.0, 0.0, 0.5, 0.0)
    assert count(tree(near)[1]) == 0
    latest, plan = tree(far)
    assert 4 <= count(plan) <= 20
    # without any, the wire alone takes longer
    assert latest > -rules.elmore(600.0, 0.5)
    # many that have time load the driver of one that has none by the pin of a buffer only
    patient = [Sink(1, 2 + k, 5.0 + k, 5.0, 0.5, 1e4) for k in range(40)]
    shared, plan = tree(near, *patient, urgent=100.0)
    assert count(plan) >= 1
    assert tree(near)[0] - shared < 2.0 * 1.1 * min(*choices[0].inputs.values(), 1.0) + 5.0


def test_demand_is_the_length_of_all_wires(queue):
    found, layout = congestion_of(queue.layout), queue.layout
    side = max(layout.floorplan.width, layout.floorplan.height) / 24
    demand = found.tiles.sum() * layout.rules.tracks_per_um * side * side
    assert demand == pytest.approx(layout.wires.total_length, rel=0.02)
    assert found.mean < found.worst
