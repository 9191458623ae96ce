"""Cycles/s of a simulated accelerator: its host as a cocotb bench, and the one in C++.

    python -m benchmarks.host_bench [--json]

Both run the same program, the accelerator's own, and must leave the same memory and counters; each
is run twice, and the faster run counts. Builds are not part of the time.
"""

import sys
from collections.abc import Iterator
from typing import Any

import numpy as np

from benchmarks.race import Figure, main
from tilewright.golden.params.resolve import resolve
from tilewright.studies.runs.program import own_program, simulate_program
from tilewright.studies.runs.simulation import DEFAULT
from tilewright.verify.native import NativeMemory, build_native, run_native

BLOCK = "harmonia:paper"
LATENCY, ROUNDS = 30, 2


def measure() -> Iterator[Figure]:
    """Both hosts."""
    params: Any = resolve(BLOCK)
    program, memory = own_program(params, 1)
    runs = [simulate_program(BLOCK, program, memory, LATENCY, DEFAULT, None) for _ in range(ROUNDS)]
    wanted, numbers = min(runs, key=lambda run: run[1]["seconds"])
    yield Figure(f"{BLOCK}, cocotb", numbers["cycles"] / numbers["seconds"], "1/s")
    model = build_native(BLOCK, threads=1)
    rates = []
    for _ in range(ROUNDS):
        got = memory.copy()
        run = run_native(model, [program], got, NativeMemory(latency=LATENCY))
        assert np.array_equal(got, wanted), "memory differs"
        assert run.endings[0].counters == numbers["counters"], "counters differ"
        assert run.cycles == numbers["cycles"], "cycles of the host differ"
        rates.append(run.cycles / run.seconds)
    yield Figure(f"{BLOCK}, native", max(rates), "1/s")
    yield Figure(f"{BLOCK}, native: seconds to build", model.seconds)


if __name__ == "__main__":
    sys.exit(main(__doc__, measure))
