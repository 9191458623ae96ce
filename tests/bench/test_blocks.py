"""Every block of the catalogue, every preset, as emitted Verilog on both simulators."""

import pytest

from golden.params.formats import BF16
from golden.params.resolve import BLOCKS, resolve
from golden.vectors import corners
from synth.emit import to_verilog
from tilewright.bench import STREAM_BENCH, cocotb_tests
from tilewright.bench.job import Job
from tilewright.simulators import run_bench
from tilewright.simulators.find import SIMULATORS, find_verilators

PRESETS = [
    f"{block}:{preset}"
    for block, cls in BLOCKS.items()
    if cocotb_tests(cls()) == STREAM_BENCH
    for preset in cls.PRESETS
]
# Elements take long to compile: sizes that no paper has are for the long runs.
LONG = [
    name
    for name in PRESETS
    if name.startswith(("pe_", "harmonia_pe")) and name.endswith((":small", ":single", ":wide"))
]


def run(block, simulator, **options):
    params = resolve(block)
    job = Job(block, **options)
    tests = cocotb_tests(params)
    return run_bench(to_verilog(params), params.slug, tests, simulator=simulator, job=job.as_dict())


@pytest.mark.parametrize(
    "block",
    [pytest.param(name, marks=[pytest.mark.full] if name in LONG else []) for name in PRESETS],
)
def test_verilog_equals_golden(block):
    """The same cycles on both, too: what a bench sees does not depend on who simulates."""
    results = [run(block, simulator) for simulator in SIMULATORS]
    for result in results:
        assert result.passed, f"{result.simulator.title}: {result.failure}"
        assert result.numbers["cases"] > 0
    assert results[0].numbers["cycles"] == results[1].numbers["cycles"]


@pytest.mark.parametrize("block", ["queue", "popcount", "arbiter", "float_mul:pipelined"])
def test_every_verilator_found_gives_the_same(block):
    """Also an old one beside a newer one: its VPI orders writes differently."""
    cycles = set()
    for verilator in find_verilators():
        result = run(block, verilator)
        assert result.passed, f"{verilator.title}: {result.failure}"
        cycles.add(result.numbers["cycles"])
    assert len(cycles) == 1


def test_bf16_products_of_all_patterns_with_all_corners():
    result = run("float_mul:bf16,lanes=32", "verilator", exhaustive=True, stalls=(0.0,))
    assert result.passed, result.failure
    assert result.numbers["cases"] * 32 == (1 << 16) * len(corners(BF16))
