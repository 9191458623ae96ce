"""Every block of the catalogue as emitted Verilog; in the long tests all presets on both."""

import pytest

from tests.support.benches import run_on_both, run_passing, unit_verilog
from tests.support.drive import catalogued_units
from tilewright.golden.params.formats import BF16
from tilewright.golden.params.resolve import BLOCKS, resolve
from tilewright.golden.vectors import corners
from tilewright.synth.emit import to_verilog
from tilewright.verify.simulators.find import find_verilators

# Icarus Verilog takes seconds for what Verilator does in half a one.
LARGE = ("pe_", "harmonia_pe", "anda_vector", "prefix_sum:ripple")
PRESETS = [f"{block}:{preset}" for block in catalogued_units() for preset in BLOCKS[block].PRESETS]
FIRST = [f"{block}:{next(iter(BLOCKS[block].PRESETS))}" for block in catalogued_units()]
# On both in every run: memory and control, and a processing element.
BOTH = ("queue", "pe_figna")
# The same writer makes the Verilog of these, whose other presets are in every run of
# tests/hw/test_blocks.py.
LESS = (
    *("float_unpack", "float_round", "float_add", "float_convert", "int_to_float"),
    *("leading_zeros", "shifter", "expand", "max_tree", "figna_aligner"),
)


@pytest.mark.parametrize(
    "block",
    [pytest.param(b, marks=pytest.mark.full if b.startswith(LESS) else ()) for b in FIRST],
)
def test_verilog_equals_golden(block):
    """The first preset of each block; tests/hw/test_blocks.py has all in Amaranth's simulator."""
    verilog = unit_verilog(block)
    cases = {"cases": 60} if block.startswith(LARGE) else {}
    if block.partition(":")[0] in BOTH:
        run_on_both(block, verilog=verilog, **cases)
    else:
        run_passing(block, "icarus", verilog=verilog, **cases)


@pytest.mark.full
@pytest.mark.parametrize("block", PRESETS)
def test_every_preset_on_both_simulators(block):
    """The same cycles, too: what a bench sees does not depend on who simulates."""
    run_on_both(block, verilog=to_verilog(resolve(block)))


@pytest.mark.full
@pytest.mark.parametrize("block", ["queue", "popcount", "float_mul:pipelined"])
def test_every_verilator_found_gives_the_same(block):
    """Also an old one next to a newer one: its VPI orders writes differently."""
    verilog = to_verilog(resolve(block))
    cycles = {
        run_passing(block, verilator, verilog=verilog).numbers["cycles"]
        for verilator in find_verilators()
    }
    assert len(cycles) == 1


@pytest.mark.full  # as gates in every run: tests/hw/test_float_exhaustive.py
def test_bf16_products_of_all_patterns_with_all_corners():
    result = run_passing("float_mul:bf16,lanes=32", exhaustive=True, stalls=(0.0,))
    assert result.numbers["cases"] * 32 == (1 << 16) * len(corners(BF16))
