"""Benches of blocks, run on their Verilog; workloads of the command line."""

import json
from functools import cache
from importlib.metadata import version

from tilewright.base.cache import content_key, get_or_make, sources_of
from tilewright.cli import main
from tilewright.golden.params.resolve import resolve
from tilewright.synth.emit import to_verilog
from tilewright.synth.emitted import SOURCES
from tilewright.verify import cocotb_tests
from tilewright.verify.job import Job
from tilewright.verify.simulators import run_bench
from tilewright.verify.simulators.find import SIMULATORS
from tilewright.verify.simulators.run import TOOLS, block_verilog


def run_block(spec, simulator="verilator", *, verilog=None, only=None, optimize="-O0", **options):
    """The result of a block's bench on its Verilog, or on ``verilog``; ``options`` are the job's.

    ``only`` names the tests of the bench to run, separated by bars.
    """
    params = resolve(spec)
    return run_bench(
        block_verilog(spec) if verilog is None else verilog,
        params.slug,
        cocotb_tests(params),
        simulator=simulator,
        job=Job(spec, **options).as_dict(),
        optimize=optimize,
        environment={"COCOTB_TEST_FILTER": f"({only})$"} if only else {},
    )


def run_passing(spec, simulator="verilator", **options):
    """The result of a bench all of whose tests must pass, on at least one case."""
    result = run_block(spec, simulator, **options)
    assert result.passed, f"{result.simulator.title}: {result.failure}"
    assert result.numbers["cases"] > 0
    return result


def run_on_both(spec, *, verilog=None, **options):
    """The results on both simulators, which must pass and see the same cycles.

    Icarus Verilog also finds what depends on undefined bits.
    """
    verilog = block_verilog(spec) if verilog is None else verilog
    results = [run_passing(spec, name, verilog=verilog, **options) for name in SIMULATORS]
    assert results[0].numbers["cycles"] == results[1].numbers["cycles"]
    return results


def run_changed_block(spec, simulator="verilator", **options):
    """The result on the Verilog that this process writes, with the components it replaced."""
    return run_block(spec, simulator, verilog=to_verilog(resolve(spec)), **options)


def unit_verilog(spec):
    """The Verilog of a small block, written once for all tests that read it.

    By this process: ``block_verilog`` starts one, which takes longer than a small block.
    """
    return get_or_make(
        ("Verilog of a unit", spec, _sources_of_verilog()), lambda: to_verilog(resolve(spec))
    )


@cache  # sources do not change while tests run
def _sources_of_verilog():
    return content_key([*sources_of(*SOURCES), *map(version, TOOLS)])


def names_of(result):
    """The tests that ran, without their module."""
    return {test.name.rpartition(".")[2] for test in result.tests}


def simulate(capsys, workload, *words):
    """Exit code and result of ``tilewright simulate``."""
    code = main(["simulate", workload, *words, "--json"])
    return code, json.loads(capsys.readouterr().out)
