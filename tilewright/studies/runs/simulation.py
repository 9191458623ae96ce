"""The bench of any block, and how the runs of this package simulate: simulator, seed, waves."""

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tilewright.base.console import progress
from tilewright.base.errors import CheckError, CommandError
from tilewright.golden.params.block import BlockParams
from tilewright.golden.params.resolve import resolve
from tilewright.verify import bench_of, cocotb_tests
from tilewright.verify.job import DEFAULT_STALLS, Job
from tilewright.verify.simulators import (
    BenchResult,
    default_simulator,
    require_simulator,
    run_bench,
)
from tilewright.verify.simulators.run import block_verilog, require_vcd

HOSTS = ("cocotb", "native")
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
        options: dict[str, Any] = {"simulator": found, "job": job.as_dict(), "waves": waves}
        optimize = "-O2" if cases > LONG else "-O0"
        return run_bench(verilog, params.slug, tests, optimize=optimize, **options)


@dataclass(frozen=True)
class Simulation:
    """The simulator of a run and what it starts from."""

    simulator: str | None = None  # "verilator" or "icarus"; by default the first that is found
    seed: int = 1
    waves: Path | None = None  # a .vcd file that all signals are written to
    host: str = "cocotb"  # of an accelerator: "cocotb", or "native", which is C++ in the model

    def __post_init__(self) -> None:
        if self.host not in HOSTS:
            raise ValueError(f"host must be one of {', '.join(HOSTS)}, not {self.host!r}")
        if self.host == "native" and self.simulator not in (None, "verilator"):
            raise CommandError(f"the native host runs with Verilator, not {self.simulator}")
        if self.host == "native" and self.waves is not None:
            raise CommandError("the native host writes no waves; take --host cocotb")

    def run(
        self,
        block: str,
        bench: str,
        *,
        cases: int = Job.cases,
        stalls: tuple[float, ...] = DEFAULT_STALLS,
        exhaustive: bool = False,
        task: Mapping[str, Any] | None = None,
        optimize: str = "-O0",
    ) -> dict[str, Any]:
        """Run the tests of module ``bench`` on a block and return the numbers that they report.

        ``cases``, ``stalls`` and ``exhaustive`` are those of :class:`tilewright.verify.job.Job`;
        ``task`` is JSON data that the bench finds in its environment. ``optimize`` is an option of
        Verilator's C++ compiler. A test that fails raises ``CheckError`` with its text.
        """
        result = run_bench(
            block_verilog(block),
            resolve(block).slug,
            bench,
            simulator=self.simulator or default_simulator(),
            job=Job(block, cases, self.seed, stalls, exhaustive).as_dict(),
            waves=self.waves,
            optimize=optimize,
            environment={} if task is None else {"TILEWRIGHT_TASK": json.dumps(task)},
        )
        if result.failure is not None:
            raise CheckError(result.failure)
        return result.numbers

    def run_each(
        self, name: str, blocks: Sequence[str], bench: str, **options: Any
    ) -> dict[str, dict[str, Any]]:
        """Return what :meth:`run` does, by block; ``name`` is that of the progress bar."""
        found = {}
        with progress(name, len(blocks)) as tick:
            for block in blocks:
                tick(block, steps=0)
                try:
                    found[block] = self.run(block, bench, **options)
                except CheckError as failure:
                    raise CheckError(f"{block}: {failure}") from None
                tick()
        return found


DEFAULT = Simulation()
NATIVE = Simulation(host="native")


def resolve_block(block: str, wanted: str, run: str) -> BlockParams:
    """Return the parameters of ``block``; one that is not ``wanted`` is refused for ``run``."""
    params = resolve(block)
    if params.block != wanted:
        raise CommandError(f"{run} runs on a block {wanted}, not {params.block}")
    return params
