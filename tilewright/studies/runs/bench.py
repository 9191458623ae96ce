"""The bench of any block: its emitted Verilog against its golden model, under random stalls."""

from collections.abc import Sequence
from pathlib import Path

from tilewright.base.console import progress
from tilewright.golden.params.resolve import resolve
from tilewright.verify import bench_of, cocotb_tests
from tilewright.verify.job import DEFAULT_STALLS, Job
from tilewright.verify.simulators import (
    BenchResult,
    default_simulator,
    require_simulator,
    run_bench,
)
from tilewright.verify.simulators.run import require_vcd
from tilewright.verify.simulators.verilog import block_verilog

LONG = 50_000  # cases that repay the time of an optimising compiler

MOST_CASES = 10_000_000  # whose operands fit in memory


def bench_block(
    block: str,
    *,
    simulator: str | None = None,
    cases: int = 1000,
    seed: int = 1,
    stalls: Sequence[float] = DEFAULT_STALLS,
    exhaustive: bool = False,
    waves: Path | None = None,
) -> BenchResult:
    """Run the bench of ``block``, a text such as ``float_mul:fp16,latency=2``.

    ``simulator`` is ``verilator`` or ``icarus``, by default the first that is found.
    ``stalls`` are probabilities that a side waits, per cycle, one pass for each. ``exhaustive``
    runs every case that the bench can list instead of ``cases`` random ones. ``waves`` is a .vcd
    file that all signals are written to.
    """
    params = resolve(block)
    if not 1 <= cases <= MOST_CASES:
        raise ValueError(f"cases must be 1..{MOST_CASES:,}, not {cases}")
    tests = cocotb_tests(params)
    if exhaustive and not bench_of(params).exhaustible:
        raise ValueError(f"the bench of {params.block} has no exhaustive cases")
    job = Job(block, cases, seed, tuple(stalls), exhaustive)
    found = require_simulator(simulator or default_simulator())
    require_vcd(waves)
    with progress(f"simulate {params.slug}") as tick:
        tick("Verilog", steps=0)
        verilog = block_verilog(block)
        tick(found.title, steps=0)
        result = run_bench(
            verilog,
            params.slug,
            tests,
            simulator=found,
            job=job.as_dict(),
            waves=waves,
            optimize="-O2" if cases > LONG else "-O0",
        )
        tick()
    return result
