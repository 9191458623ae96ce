"""Benches of blocks, run on their Verilog."""

from golden.params.resolve import resolve
from tilewright.bench import cocotb_tests
from tilewright.bench.job import Job
from tilewright.simulators import run_bench
from tilewright.simulators.verilog import block_verilog

__all__ = ["run_block"]


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
