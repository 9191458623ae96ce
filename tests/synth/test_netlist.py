"""Mapped netlists do what the block does: the same bench, on cells."""

import re

import pytest

from tilewright.golden.params.arith import ARITH_BLOCKS
from tilewright.golden.params.resolve import resolve
from tilewright.golden.params.stream import STREAM_BLOCKS
from tilewright.synth.emit import to_rtlil
from tilewright.synth.flow import Goal, synthesise
from tilewright.synth.technology import TECHNOLOGIES, load_technology
from tilewright.verify import cocotb_tests
from tilewright.verify.job import Job
from tilewright.verify.netlist import netlist_verilog as with_cells
from tilewright.verify.simulators import run_bench

ALL = [f"{cls.block}:{p}" for cls in (*STREAM_BLOCKS, *ARITH_BLOCKS) for p in cls.PRESETS]


def netlist_verilog(spec, technology, goal=Goal.AREA):
    params = resolve(spec)
    rtlil = to_rtlil(params, memory_macros=True)
    return with_cells(synthesise(rtlil, params.slug, load_technology(technology), goal))


def run(spec, verilog, simulator="icarus", cases=60):
    """Icarus Verilog starts at once, and shows what is not reset as unknown."""
    params = resolve(spec)
    job = Job(spec, cases=cases, stalls=(0.0, 0.5)).as_dict()  # gates are slow to simulate
    return run_bench(verilog, params.slug, cocotb_tests(params), simulator=simulator, job=job)


@pytest.mark.parametrize(
    ("spec", "technology"),
    [
        *(("queue:tiny", "sky130hd"), ("queue:tiny", "asap7")),
        *(("float_mul:e4m3,latency=2", "asap7"), ("prefix_sum:odd", "sky130hd")),
    ],
)
def test_netlist_passes_the_blocks_bench(spec, technology):
    result = run(spec, netlist_verilog(spec, technology))
    assert result.passed, result.failure


@pytest.mark.parametrize("goal", Goal)
def test_every_goal_keeps_the_function(goal):
    spec = "adder_tree:odd,latency=1"
    result = run(spec, netlist_verilog(spec, "asap7", goal))
    assert result.passed, result.failure


def test_the_other_simulator_agrees():
    result = run("queue:tiny", netlist_verilog("queue:tiny", "sky130hd"), "verilator")
    assert result.passed, result.failure


@pytest.mark.full
@pytest.mark.parametrize("technology", TECHNOLOGIES)
@pytest.mark.parametrize("spec", ALL)
def test_every_netlist_passes(spec, technology):
    result = run(spec, netlist_verilog(spec, technology))
    assert result.passed, result.failure


@pytest.mark.parametrize(
    "spec", ["anda_apu:small", pytest.param("harmonia_pe:small", marks=pytest.mark.full)]
)
def test_small_pes_pass_in_cells_and_a_wrong_adder_does_not(spec):
    verilog = netlist_verilog(spec, "asap7")
    result = run(spec, verilog, cases=12)
    assert result.passed, result.failure
    broken = re.sub(r"(module FAx1.*?assign SN = )", r"\1~", verilog, flags=re.DOTALL)
    assert broken != verilog
    assert not run(spec, broken, cases=12).passed


@pytest.mark.full
@pytest.mark.parametrize("technology", TECHNOLOGIES)
@pytest.mark.parametrize(
    "spec",
    [
        *("anda_compressor_lane:small", "anda_compressor_lane", "anda_apu", "anda_apu:bare"),
        *("harmonia_pe", "harmonia_pe:single", "harmonia_converter"),
    ],
)
def test_units_of_the_published_size_pass(spec, technology):
    result = run(spec, netlist_verilog(spec, technology), "verilator")
    assert result.passed, result.failure


@pytest.mark.full
def test_deca_in_cells():
    """The element of the preset small: cells, and models of its memories.

    The tests of its bench that take a few thousand cycles; gates do about fifty in a second.
    """
    spec = "deca:small"
    params = resolve(spec)
    tests = [
        "every_configuration",
        "squash_at_any_time",
        "registers_keep_and_refuse",
        "stray_answers_are_noted",
    ]
    result = run_bench(
        netlist_verilog(spec, "asap7"),
        params.slug,
        cocotb_tests(params),
        simulator="icarus",
        job=Job(spec, cases=1).as_dict(),
        environment={"COCOTB_TEST_FILTER": f"({'|'.join(tests)})$"},
    )
    assert result.passed, result.failure
    assert [test.name.rpartition(".")[2] for test in result.tests] == tests
