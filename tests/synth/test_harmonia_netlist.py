"""Mapped netlists of the Harmonia units: the same benches, on cells."""

import pytest

from tests.synth.test_netlist import netlist_verilog, run
from tilewright.synth.technology import TECHNOLOGIES


def test_small_element_passes_in_cells():
    result = run("harmonia_pe:small", netlist_verilog("harmonia_pe:small", "asap7"))
    assert result.passed, result.failure


@pytest.mark.full
@pytest.mark.parametrize("technology", TECHNOLOGIES)
@pytest.mark.parametrize("spec", ["harmonia_pe", "harmonia_pe:single", "harmonia_converter"])
def test_netlist_of_the_published_size_passes(spec, technology):
    result = run(spec, netlist_verilog(spec, technology), "verilator")
    assert result.passed, result.failure
