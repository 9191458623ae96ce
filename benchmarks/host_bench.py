"""Cycles/s of a simulated accelerator: its host as a cocotb bench beside the one in C++.

    python -m benchmarks.host_bench [BLOCK]... [--threads N]...

Both run the same program, the accelerator's own, and must leave the same memory and counters; each
is run twice, and the faster run counts. Builds are not part of the time, and are shown. By default
the block is harmonia:paper, with one thread.
"""

import argparse
from typing import Any

import numpy as np

from tilewright.base.console import print_table
from tilewright.golden.params.resolve import resolve
from tilewright.studies.runs.program import own_program, simulate_program
from tilewright.studies.runs.simulation import DEFAULT
from tilewright.verify.native import NativeMemory, build_native, run_native

LATENCY, ROUNDS = 30, 2


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("blocks", nargs="*", default=["harmonia:paper"], metavar="BLOCK")
    parser.add_argument("--threads", type=int, action="append", metavar="N")
    args = parser.parse_args()
    header = ("BLOCK", "HOST", "THREADS", "BUILD S", "CYCLES", "S", "CYCLES/S", "TIMES COCOTB")
    print_table(header, [row for b in args.blocks for row in _rows(b, args.threads or [1])])


def _rows(block: str, threads: list[int]) -> list[tuple[Any, ...]]:
    params: Any = resolve(block)
    program, memory = own_program(params, 1)
    runs = [simulate_program(block, program, memory, LATENCY, DEFAULT, None) for _ in range(ROUNDS)]
    wanted, numbers = min(runs, key=lambda run: run[1]["seconds"])
    slow = numbers["cycles"] / numbers["seconds"]
    rows = [_row(block, "cocotb", "-", "-", numbers["cycles"], numbers["seconds"], slow)]
    for count in threads:
        model = build_native(block, threads=count)
        best = float("inf")
        for _ in range(ROUNDS):
            got = memory.copy()
            run = run_native(model, [program], got, NativeMemory(latency=LATENCY))
            assert np.array_equal(got, wanted), "memory differs"
            assert run.endings[0].counters == numbers["counters"], "counters differ"
            assert run.cycles == numbers["cycles"], "cycles of the host differ"
            best = min(best, run.seconds)
        rows.append(_row(block, "native", count, f"{model.seconds:.0f}", run.cycles, best, slow))
    return rows


def _row(
    block: str, host: str, threads: Any, build: str, cycles: int, seconds: float, slow: float
) -> tuple[Any, ...]:
    rate = cycles / seconds
    return (
        *(block, host, threads, build, f"{cycles:,}", f"{seconds:.1f}"),
        *(f"{rate:,.0f}", f"{rate / slow:.1f}"),
    )


if __name__ == "__main__":
    main()
