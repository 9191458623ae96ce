"""Placement: cells in rows without overlap, little wire, evenly dense; what is refused."""

import numpy as np
import pytest

from tilewright.synth.place.analytic import place_cells
from tilewright.synth.place.floorplan import Box, Floorplan, around, plan_floor
from tilewright.synth.place.layout import lay_out, legalise
from tilewright.synth.place.rules import load_rules
from tilewright.synth.place.wires import Wiring, wiring_of
from tilewright.synth.technology import load_technology


def chain(count):
    """Cells in a row, each joined to the next, the ends to ports."""
    points = [p for k in range(count - 1) for p in (k, k + 1)]
    points = [count, 0, *points, count - 1, count + 1]
    start = np.arange(0, len(points) + 1, 2)
    ports = [("a", 0), ("b", 0)]
    return Wiring(count, ports, list(range(len(start) - 1)), start, np.array(points))


def overlaps(x, y, widths):
    found = 0
    for row in np.unique(y):
        members = np.flatnonzero(y == row)
        members = members[np.argsort(x[members])]
        ends = (x + widths / 2)[members][:-1]
        found += int((ends > (x - widths / 2)[members][1:] + 1e-9).sum())
    return found


def test_a_chain_lies_between_its_ports():
    count, core = 64, Box(0.0, 0.0, 8.0, 8.0)
    wiring = chain(count)
    areas = np.append(np.full(count, 0.5), [0.0, 0.0])
    movable = np.append(np.ones(count, dtype=bool), [False, False])
    x, y = np.append(np.zeros(count), [0.0, 8.0]), np.append(np.zeros(count), [4.0, 4.0])
    px, py = place_cells(wiring, areas, movable, x, y, core)
    assert px[-2:].tolist() == [0.0, 8.0]
    # evenly dense: as much in each quarter
    quarters = [((px[:-2] < 4) == a) & ((py[:-2] < 4) == b) for a in (0, 1) for b in (0, 1)]
    assert all(10 <= quarter.sum() <= 22 for quarter in quarters)
    shuffled = np.random.default_rng(3).permutation(count)
    qx, qy = px.copy(), py.copy()
    qx[:count], qy[:count] = px[shuffled], py[shuffled]
    length = wiring.half_perimeters(px, py).sum()
    assert length < 0.4 * wiring.half_perimeters(qx, qy).sum()
    assert px[0] < px[count - 1]


def test_rows_have_no_overlap_and_move_little():
    random = np.random.default_rng(1)
    count, widths = 400, random.uniform(0.2, 0.8, 400)
    side = float(np.sqrt(widths.sum() / 0.8))
    rows = int(np.ceil(side))
    nothing = np.zeros(0)
    core = Box(0.0, 0.0, side, float(rows))
    plan = Floorplan(side, float(rows), rows, core, {}, nothing, nothing)
    x, y = random.uniform(0, side, count), random.uniform(0, rows, count)
    lx, ly = legalise(np.arange(count), widths, x, y, plan)
    assert overlaps(lx, ly, widths) == 0
    assert (lx - widths / 2 >= -1e-9).all() and (lx + widths / 2 <= side + 1e-9).all()
    assert set(np.unique(ly % 1.0)) == {0.5}
    assert np.hypot(lx - x, ly - y).mean() < 2.0


def test_too_many_cells_are_refused():
    nothing = np.zeros(0)
    plan = Floorplan(1.0, 1.0, 1, Box(0.0, 0.0, 1.0, 1.0), {}, nothing, nothing)
    with pytest.raises(ValueError, match=r"^the cells do not fit into the rows"):
        legalise(np.arange(3), np.full(3, 0.5), np.zeros(3), np.zeros(3), plan)


def test_ports_lie_on_the_edge_in_their_order():
    x, y = around(np.array([2, 0, 1, 3]), 4.0, 2.0)
    assert all(a in (0.0, 4.0) or b in (0.0, 2.0) for a, b in zip(x, y, strict=True))
    assert (x[2], y[2]) == (0.0, 1.5)


def test_a_layout_is_legal_and_as_full_as_asked(queue):
    layout = queue.placed
    widths = np.array([i.cell.area for i in layout.netlist.instances]) / layout.rules.row_height
    count = len(widths)
    assert overlaps(layout.x[:count], layout.y[:count], widths) == 0
    assert layout.utilisation == pytest.approx(0.7, abs=0.02)
    assert layout.floorplan.area == pytest.approx(layout.netlist.area / 0.7, rel=0.05)
    assert layout.floorplan.width == pytest.approx(layout.floorplan.height, rel=0.1)


def test_memories_lie_at_the_edges():
    from tilewright.golden.params.resolve import resolve
    from tilewright.synth.emit import to_rtlil
    from tilewright.synth.flow import synthesise

    cells = load_technology("asap7")
    params = resolve("figna_aligner")
    netlist = synthesise(to_rtlil(params, memory_macros=True), params.slug, cells).netlist
    plan = plan_floor(netlist, wiring_of(netlist), load_rules("asap7"), 0.7)
    ((k, box),) = plan.macros.items()
    assert netlist.instances[k].cell.memory_bits
    assert box.x == 0.0
    assert box.width * box.height == pytest.approx(netlist.memory_area)
    assert plan.core.x == pytest.approx(box.width)
    assert plan.core.x + plan.core.width == pytest.approx(plan.width)


@pytest.mark.parametrize("utilisation", [0.0, 0.96])
def test_a_utilisation_that_leaves_no_rows_is_refused(popcount, utilisation):
    with pytest.raises(ValueError, match=r"^utilisation must be above 0 and at most 0\.95, not"):
        lay_out(popcount.synthesis.netlist, load_technology("asap7"), utilisation)
