"""Mapped netlists and lint of the Harmonia units: the same benches, on cells."""

import pytest

from golden.params.harmonia import HARMONIA_BLOCKS
from golden.params.resolve import resolve
from synth.technology import TECHNOLOGIES
from tests.synth.test_lint import VERILATORS, lint
from tests.synth.test_netlist import netlist_verilog, run
from tilewright.simulators.verilog import block_verilog


def test_small_element_passes_in_cells():
    result = run("harmonia_pe:small", netlist_verilog("harmonia_pe:small", "asap7"))
    assert result.passed, result.failure


@pytest.mark.full
@pytest.mark.parametrize("technology", TECHNOLOGIES)
@pytest.mark.parametrize("spec", ["harmonia_pe", "harmonia_pe:single", "harmonia_converter"])
def test_netlist_of_the_published_size_passes(spec, technology):
    result = run(spec, netlist_verilog(spec, technology), "verilator")
    assert result.passed, result.failure


LINTED = [
    pytest.param(f"{cls.block}:{name}", marks=() if name == "small" else pytest.mark.full)
    for cls in HARMONIA_BLOCKS
    for name in cls.PRESETS
]


@pytest.mark.parametrize("spec", LINTED)
def test_verilog_is_clean(spec, tmp_path):
    for verilator in VERILATORS:
        found = lint(verilator, resolve(spec).slug, block_verilog(spec), tmp_path)
        assert found == "", verilator.title
