"""Wires: lengths against Steiner trees, Elmore delays by hand, timing with and without them."""

import itertools
from dataclasses import replace

import numpy as np
import pytest

from tilewright.synth.place.clock_tree import clock_tree
from tilewright.synth.place.congestion import congestion_of
from tilewright.synth.place.repair import repair
from tilewright.synth.place.rules import load_rules
from tilewright.synth.place.sizes import sizes
from tilewright.synth.place.timing import time_placed
from tilewright.synth.place.wires import _elmore, _trees, steiner_factor
from tilewright.synth.timing import longest_paths


def spanning(points):
    """Length of the shortest spanning tree."""
    inside, total = {0}, 0.0
    while len(inside) < len(points):
        distance, k = min(
            (abs(points[i][0] - points[j][0]) + abs(points[i][1] - points[j][1]), j)
            for i in inside
            for j in range(len(points))
            if j not in inside
        )
        inside, total = inside | {k}, total + distance
    return total


def steiner(points):
    """Length of the shortest Steiner tree: every choice of crossings of lines through the pins."""
    crossings = [(x, y) for x in {p[0] for p in points} for y in {p[1] for p in points}]
    crossings = [c for c in crossings if c not in points]
    most = len(points) - 2
    choices = (c for n in range(most + 1) for c in itertools.combinations(crossings, n))
    return min(spanning([*points, *chosen]) for chosen in choices)


@pytest.mark.parametrize("pins", [3, 4, 5])
def test_half_perimeter_with_its_factor_is_a_steiner_tree_on_average(pins):
    random = np.random.default_rng(pins)
    estimated = exact = 0.0
    for _ in range(40 if pins < 5 else 8):
        points = [tuple(p) for p in random.uniform(0, 1, (pins, 2))]
        x, y = zip(*points, strict=True)
        estimated += (max(x) - min(x) + max(y) - min(y)) * steiner_factor(pins)
        exact += steiner(points)
    assert estimated == pytest.approx(exact, rel=0.05)


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
    found = time_placed(netlist, technology, placed.placed.wiring)
    assert found.delay == expected == placed.delay_before


@pytest.mark.parametrize("block", ["popcount", "queue"])
def test_wires_cost_and_repair_never_makes_it_worse(block, request):
    placed = request.getfixturevalue(block)
    assert placed.delay_before < placed.delay_placed
    assert placed.delay <= placed.delay_placed
    assert placed.placed.timing.slacks[placed.placed.timing.path[-1].net] == pytest.approx(0.0)
    assert min(placed.placed.timing.slacks.values()) == pytest.approx(0.0, abs=1e-6)


def test_repair_keeps_the_function(queue):
    """Sizes keep pins and function; without its buffers the netlist has the nets it had."""
    before = {i.name: i for i in queue.synthesis.netlist.instances}
    buffers = [i for i in queue.layout.netlist.instances if i.name not in before]
    assert len(buffers) == queue.repaired.buffers
    source = {}
    for buffer in buffers:
        (pin,), (out,) = buffer.cell.inputs, buffer.cell.outputs
        source[buffer.pins[out]] = buffer.pins[pin]

    def origin(net):
        while net in source:
            net = source[net]
        return net

    for instance in queue.layout.netlist.instances:
        if instance.name in before:
            old = before[instance.name]
            assert instance.cell.outputs == old.cell.outputs
            assert {pin: origin(net) for pin, net in instance.pins.items()} == old.pins
    outputs = queue.layout.netlist.outputs
    assert {p: [origin(n) for n in nets] for p, nets in outputs.items()} == (
        queue.synthesis.netlist.outputs
    )


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
    assert 0 <= tree.skew < tree.latency
    assert clock_tree(popcount.layout) is None


def test_demand_is_the_length_of_all_wires(queue):
    found, layout = congestion_of(queue.layout), queue.layout
    side = max(layout.floorplan.width, layout.floorplan.height) / 24
    demand = found.tiles.sum() * layout.rules.tracks_per_um * side * side
    assert demand == pytest.approx(layout.wires.total_length, rel=0.02)
    assert found.mean < found.worst
