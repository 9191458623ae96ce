"""Whole GEMMs and steps of a model on an accelerator, with transfers, cycle for cycle.

``TILEWRIGHT_TASK`` has the memory's latency, GEMMs (options of ``gemm_of``), whether steps of a
small model follow them, and whether a load that fills the memory of weights does. Programs of a
GEMM run one after the other without a reset; memory and counters are golden's. With a ``rate``,
channels of the memory bring lines in so many of so many cycles, which golden does not know: then
counters of time are at least golden's. A GEMM with the option ``from_memory`` is one program, which
streams from external memory. The report has the cycles of each and the lines read.
"""

import json
import os
import time
from collections.abc import Iterator
from typing import Any

import cocotb
import numpy as np

from tilewright.golden.params.machine import Error
from tilewright.verify import job
from tilewright.verify.machine.accelerators import accelerator_of
from tilewright.verify.machine.check import require_memory
from tilewright.verify.machine.host import Host
from tilewright.verify.machine.model_workload import model_cases
from tilewright.verify.machine.weights import stream_of_weights
from tilewright.verify.machine.workload import gemm_of
from tilewright.verify.streams import Harness

__all__ = ["gemms"]


@cocotb.test
async def gemms(dut: Any) -> None:
    asked, task = job.load(), json.loads(os.environ["TILEWRIGHT_TASK"])
    params, clock, start = asked.params, Harness(dut), time.perf_counter()
    runs = [
        await _run(clock, params, programs, memory, task)
        for programs, memory in _work(params, task, asked.seed)
    ]
    job.report(
        cases=len(runs),
        cycles=sum(cycles for cycles, _ in runs),
        seconds=time.perf_counter() - start,
        program_cycles=[cycles for cycles, _ in runs],
        lines_read=[lines for _, lines in runs],
    )


def _work(params: Any, task: dict[str, Any], seed: int) -> Iterator[tuple[list, np.ndarray]]:
    rng = np.random.default_rng(seed)
    for options in task["gemms"]:
        yield gemm_of(params, rng, {"latency": task["latency"], **options})
    if task.get("model"):
        for case in model_cases(params, seed):
            yield [case.line], case.memory
    if task.get("stream"):
        program, lines = stream_of_weights(params)
        yield [program], rng.integers(0, 256, lines * params.line_bytes, np.uint8)


async def _run(
    clock: Harness, params: Any, programs: list, memory: np.ndarray, task: dict[str, Any]
) -> tuple[int, int]:
    """Cycles of all programs together, and lines that they read."""
    system, wanted = accelerator_of(params), memory.copy()
    machine = system.machine(params, wanted)
    latency, rate = task["latency"], task.get("rate", (1, 1))
    host = Host(clock, params, memory, latency=latency, rate=rate)
    await host.start()
    total = lines = 0
    for number, program in enumerate(programs):
        streams = isinstance(program, int)  # it lies in memory, from this line on
        outcome = machine.run_stream(program) if streams else machine.run(program)
        assert outcome.error is Error.NONE, f"golden stops with {outcome.error.name}"
        status = await (host.run_stream(program) if streams else host.run_program(program))
        assert status.error is Error.NONE, f"program {number} stops with {status}"
        counters, times = await host.counters(), system.program_cycles(params, outcome, latency)
        if tuple(rate) != (1, 1):
            cycles = system.counter["CYCLES"]
            assert counters[cycles] >= times[cycles], f"program {number} is faster than golden"
            times = {}
        expected = outcome.counts | times
        wrong = {c.name: (counters[c], want) for c, want in expected.items() if counters[c] != want}
        assert not wrong, f"program {number}, counters (got, expected): {wrong}"
        total += counters[system.counter["CYCLES"]]
        lines += counters[system.counter["LINES_READ"]]
    require_memory(memory, wanted, params.line_bytes, None)
    return total, lines
