"""Random and directed programs: memory, events, counters and cycles are golden's."""

import time
from typing import Any

import cocotb

from tilewright.verify import job
from tilewright.verify.machine.accelerators import bench_side
from tilewright.verify.machine.check import LATENCIES, check_program
from tilewright.verify.streams import Harness

CASES_PER_PROGRAM = 100  # a program stands for so many of the cases asked for


@cocotb.test
async def random_programs(dut: Any) -> None:
    """Each program with every stall; without stalls, cycle for cycle."""
    asked, start = job.load(), time.perf_counter()
    params, clock, cycles = asked.params, Harness(dut), 0
    numbers = range(max(1, asked.cases // CASES_PER_PROGRAM))
    runs = [(stall, k) for stall in asked.stalls for k in numbers]
    for done, (stall, k) in enumerate(runs, 1):
        seed = 1000 * asked.seed + k
        b = bench_side(params).random_program(params, seed)
        program, memory = b.program, b.memory
        try:
            await check_program(
                clock, params, program, memory, seed=seed, stall=stall, where=b.place_of
            )
        except AssertionError as problem:
            raise AssertionError(
                f"{params.slug}, program {k}, stall {stall:g}: {problem}"
            ) from None
        cycles += clock.cycle
        job.report(cases=done, cycles=cycles, seconds=time.perf_counter() - start)


@cocotb.test
async def directed_programs(dut: Any) -> None:
    """Every instruction on one row or group and on several, streamed from memories of each latency.

    Without stalls, cycle for cycle; one of them under the longest stalls.
    """
    asked, start = job.load(), time.perf_counter()
    params, clock, cycles = asked.params, Harness(dut), 0
    runs = [*((0.0, k) for k in range(len(LATENCIES))), (max(asked.stalls), 0)]
    for stall, k in runs:
        seed = len(LATENCIES) * asked.seed + k
        program, memory = bench_side(params).directed_program(params, seed)
        await check_program(clock, params, program, memory, seed=seed, stall=stall, stream=True)
        cycles += clock.cycle
    job.report(cases=len(runs), cycles=cycles, seconds=time.perf_counter() - start)
