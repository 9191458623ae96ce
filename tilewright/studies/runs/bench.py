"""The bench of any block: its emitted Verilog against its golden model, under random stalls."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

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
from tilewright.verify.simulators.find import SIMULATORS
from tilewright.verify.simulators.run import require_vcd
from tilewright.verify.simulators.verilog import block_verilog

LONG = 50_000  # cases that repay the time of an optimising compiler

MOST_CASES = 10_000_000  # whose operands fit in memory


@dataclass(frozen=True)
class BlockRun:
    """Results of a block's bench on one simulator or on several."""

    block: str  # as it was asked for
    name: str  # of its Verilog module
    seed: int
    results: tuple[BenchResult, ...]

    @property
    def passed(self) -> bool:
        """Whether every test passed on every simulator."""
        return all(result.passed for result in self.results)

    def as_dict(self) -> dict[str, Any]:
        """Return plain JSON data."""
        runs = [_as_dict(result) for result in self.results]
        return {"block": self.block, "name": self.name, "seed": self.seed, "runs": runs}


def bench_block(
    block: str,
    *,
    simulator: str | None = None,
    cases: int = 1000,
    seed: int = 1,
    stalls: Sequence[float] = DEFAULT_STALLS,
    exhaustive: bool = False,
    waves: Path | None = None,
) -> BlockRun:
    """Run the bench of ``block``, a text such as ``float_mul:fp16,latency=2``.

    ``simulator`` is ``verilator``, ``icarus`` or ``both``, by default the first that is found.
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
    names = SIMULATORS if simulator == "both" else [simulator or default_simulator()]
    simulators = [require_simulator(name) for name in names]
    if waves and len(simulators) > 1:
        raise ValueError("--waves takes one simulator, not both")
    require_vcd(waves)
    optimize = "-O2" if cases > LONG else "-O0"
    results = []
    with progress(f"simulate {params.slug}", len(simulators)) as tick:
        tick("Verilog", steps=0)
        verilog = block_verilog(block)
        for found in simulators:
            tick(found.title, steps=0)
            results.append(
                run_bench(
                    verilog,
                    params.slug,
                    tests,
                    simulator=found,
                    job=job.as_dict(),
                    waves=waves,
                    optimize=optimize,
                )
            )
            tick()
    return BlockRun(block, params.slug, seed, tuple(results))


def cycles_per_second(result: BenchResult) -> int | None:
    """Return the simulated cycles per second of wall clock, None where none were clocked."""
    cycles, seconds = result.numbers.get("cycles"), result.numbers.get("seconds")
    return round(cycles / seconds) if cycles and seconds else None


def _as_dict(result: BenchResult) -> dict[str, Any]:
    return {
        "simulator": result.simulator.name,
        "version": result.simulator.version,
        "passed": result.passed,
        "cases": result.numbers.get("cases"),
        "cycles": result.numbers.get("cycles"),
        "cycles_per_second": cycles_per_second(result),
        "tests": [{"name": t.name, "failure": t.message} for t in result.tests],
        "coverage": result.numbers.get("coverage"),
    }
