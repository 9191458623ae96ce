"""Every block of the catalogue, every preset, as emitted Verilog; in the long tests on both
simulators."""

import pytest

from tests.support.benches import run_on_both, run_passing, unit_verilog
from tests.support.drive import catalogued_units, long_to_compile
from tilewright.golden.params.formats import BF16
from tilewright.golden.params.resolve import BLOCKS, resolve
from tilewright.golden.vectors import corners
from tilewright.synth.emit import to_verilog
from tilewright.verify.simulators.find import find_verilators

PRESETS = [f"{block}:{preset}" for block in catalogued_units() for preset in BLOCKS[block].PRESETS]
# Icarus Verilog takes seconds for what Verilator does in half a one.
LARGE = ("pe_", "harmonia_pe", "anda_vector", "float_fma", "prefix_sum:ripple")
# Options that a further preset has together.
ALONE = ("anda_vector:fused", "anda_vector:paced")
# On both in every run: memory, control, arithmetic, and a processing element.
BOTH = [
    f"{block}:{next(iter(BLOCKS[block].PRESETS))}"
    for block in ("queue", "width_converter", "arbiter", "float_mul", "adder_tree", "pe_figna")
]


@pytest.mark.parametrize(
    "block",
    [
        pytest.param(
            name, marks=[pytest.mark.full] if long_to_compile(name) or name in ALONE else []
        )
        for name in PRESETS
    ],
)
def test_verilog_equals_golden(block):
    """The same cycles on both, too: what a bench sees does not depend on who simulates.

    That is asked of some. Of a small block, Icarus Verilog, which compiles in no time, has the
    others; of a large one Verilator has.
    """
    verilog = unit_verilog(block)
    large = block.startswith(LARGE)
    if block in BOTH:
        run_on_both(block, verilog=verilog, **({"cases": 60} if large else {}))
    if large:
        run_passing(block, verilog=verilog)
    elif block not in BOTH:
        run_passing(block, "icarus", verilog=verilog)


@pytest.mark.full
@pytest.mark.parametrize("block", [name for name in PRESETS if name.startswith(LARGE)])
def test_large_block_on_both_simulators(block):
    run_on_both(block, verilog=to_verilog(resolve(block)))


@pytest.mark.full
@pytest.mark.parametrize(
    "block", [name for name in catalogued_units() if not name.startswith(LARGE)]
)
def test_small_presets_on_both_simulators(block):
    for preset in BLOCKS[block].PRESETS:
        name = f"{block}:{preset}"
        if name not in BOTH and not name.startswith(LARGE):
            run_on_both(name, verilog=to_verilog(resolve(name)))


@pytest.mark.parametrize("block", ["queue", "popcount", "arbiter", "float_mul:pipelined"])
def test_every_verilator_found_gives_the_same(block):
    """Also an old one beside a newer one: its VPI orders writes differently."""
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
