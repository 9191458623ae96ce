"""Running a bench: its results, its crashes, its waves."""

import re
from functools import partial
from importlib.metadata import version

import pytest

from tilewright.golden.params.resolve import resolve
from tilewright.synth.emit import to_verilog
from tilewright.verify import cocotb_tests
from tilewright.verify.job import Job
from tilewright.verify.simulators import SimulationError, run_bench
from tilewright.verify.simulators.find import BuildError, find_compiler, find_verilators, is_gcc
from tilewright.verify.simulators.verilator import with_public_ports

PARAMS = resolve("adder_tree:pipelined")
SIMULATORS = ["verilator", "icarus"]


@pytest.fixture
def bench(tmp_path, monkeypatch):
    """A module of cocotb tests, written on the spot."""
    monkeypatch.syspath_prepend(tmp_path)

    def write(text):
        (tmp_path / "own_bench.py").write_text(f"import cocotb\n{text}")
        return "own_bench"

    return write


@pytest.mark.parametrize("simulator", SIMULATORS)
def test_own_bench_reports(bench, simulator):
    module = bench(
        "from tilewright.verify import job\n"
        "from tilewright.verify.streams import Harness, StreamDriver, StreamMonitor\n"
        "@cocotb.test\n"
        "async def passes(dut):\n"
        "    clock, i, o = Harness(dut), StreamDriver(dut, 'i'), StreamMonitor(dut, 'o')\n"
        "    i.send([0, 1, 31])\n"
        "    await clock.reset([i, o])\n"
        "    await clock.run(lambda: len(o.words) == 3)\n"
        "    job.report(cases=3, cycles=clock.cycle, words=o.words)\n"
        "@cocotb.test\n"
        "async def fails(dut):\n"
        "    assert job.load().cases == 6, f'{job.load().cases} is not\\n6'\n"
    )
    job = Job("adder_tree:pipelined", cases=7).as_dict()
    result = run_bench(to_verilog(PARAMS), PARAMS.slug, module, simulator=simulator, job=job)
    # Three words in a row through two registers; terms are signed, 31 of 5 bits is -1.
    assert result.numbers == {"cases": 3, "cycles": 6, "words": [0, 1, 0x7FF]}
    assert [(t.name, t.message) for t in result.tests] == [
        ("passes", None),
        ("fails", "7 is not\n6"),
    ]
    assert result.failure == "7 is not\n6"


@pytest.mark.parametrize("simulator", SIMULATORS)
def test_ports_of_thousands_of_bits_are_read_whole(bench, simulator):
    """A line of 256 bytes and its address is more than Verilator reads unless told so."""
    module = bench(
        "from cocotb.triggers import Timer\n"
        "@cocotb.test\n"
        "async def reads(dut):\n"
        "    dut.a.value = (1 << 3000) - 1\n"
        "    await Timer(1, 'ns')\n"
        "    assert int(dut.y.value) == (1 << 3000) - 1\n"
    )
    verilog = "module wide(input [2999:0] a, output [2999:0] y);\n  assign y = a;\nendmodule\n"
    assert run_bench(verilog, "wide", module, simulator=simulator).passed


@pytest.mark.parametrize("simulator", SIMULATORS)
def test_no_test_is_an_error(bench, simulator):
    with pytest.raises(SimulationError, match=r"^bench own_bench (ran no test|died)"):
        run_bench(to_verilog(PARAMS), PARAMS.slug, bench(""), simulator=simulator)


@pytest.mark.parametrize("simulator", SIMULATORS)
def test_crash_is_an_error_with_the_log(bench, simulator):
    module = bench("import os\n@cocotb.test\nasync def crash(dut):\n    os.abort()\n")
    with pytest.raises(SimulationError, match=r"^bench own_bench died \(exit code -?\d+\):\n"):
        run_bench(to_verilog(PARAMS), PARAMS.slug, module, simulator=simulator)


@pytest.mark.parametrize("simulator", SIMULATORS)
def test_bad_verilog_is_an_error_with_the_complaint(simulator):
    text = f"module {PARAMS.slug}(input a);\n  assign b = ;\nendmodule\n"
    with pytest.raises(BuildError, match=r"ended with exit code \d+:\n  .*top\.v:\d"):
        run_bench(text, PARAMS.slug, "tilewright.verify.stream_tests", simulator=simulator)


@pytest.mark.parametrize(("macros", "gcc"), [("-U__clang__", True), ("-D__clang__=17", False)])
def test_only_gcc_compiles_headers_ahead(macros, gcc, tmp_path):
    """Clang does not take a compiled header that was moved."""
    compiler = tmp_path / "compiler"
    compiler.write_text(f'#!/bin/sh\nexec "{find_compiler()}" -D__GNUC__=12 {macros} "$@"\n')
    compiler.chmod(0o755)
    assert is_gcc(compiler) is gcc


def test_only_ports_of_the_top_are_marked():
    text = (
        "module inner(a);\n  input a;\nendmodule\n"
        "module top(a, b);\n  input [3:0] a;\n  wire [3:0] a;\n  output b;\n  reg b;\nendmodule\n"
    )
    marked = with_public_ports(text, "top")
    assert "  input [3:0] a /*verilator public_flat_rw*/;" in marked
    assert "  output b /*verilator public_flat_rw*/;" in marked
    assert marked.count("public") == 2
    with pytest.raises(ValueError, match=r"^the Verilog has no module 'other'$"):
        with_public_ports(text, "other")


def title(simulator):
    return getattr(simulator, "title", simulator)


@pytest.mark.parametrize("simulator", [*find_verilators(), "icarus"], ids=title)
def test_waves_show_the_clock_and_inner_signals(simulator, tmp_path):
    job, path = Job("adder_tree:pipelined", cases=3).as_dict(), tmp_path / "waves.vcd"
    tests = cocotb_tests(PARAMS)
    run = partial(run_bench, to_verilog(PARAMS), PARAMS.slug, tests, simulator=simulator, job=job)
    assert run(waves=path).failure is None
    text = path.read_text()
    clock = re.search(r"\$var \w+\s+1 (\S+) clk \$end", text)
    assert re.search(r"s\d+r\d+_valid", text)  # a register inside
    assert text.count(f"\n1{clock[1]}\n") > 10
    assert "#10000\n" in text  # one period of 10 ns, in ps


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"cases": 0}, "cases must be at least 1, not 0"),
        ({"seed": -1}, "seed must be at least 0, not -1"),
        ({"stalls": (0.0, 1.0)}, "stall must be 0..0.95, not 1.0"),
    ],
)
def test_jobs_are_checked(change, message):
    with pytest.raises(ValueError, match=f"^{re.escape(message)}$"):
        Job("popcount", **change)


def test_cocotb_is_the_one_the_main_file_was_written_for():
    assert version("cocotb").startswith("2.1")
