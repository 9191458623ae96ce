"""Random programs on the accelerator: memory, events, counters and cycles are golden's."""

import time
from typing import Any

import cocotb
import numpy as np

from tilewright.golden.params.anda_machine import AndaParams
from tilewright.golden.params.vector import Operation
from tilewright.verify import job
from tilewright.verify.anda_machine.builder import Builder
from tilewright.verify.anda_machine.workload import random_program
from tilewright.verify.machine.check import check_program
from tilewright.verify.streams import Harness

__all__ = ["random_programs", "subnormal_reciprocals"]

CASES_PER_PROGRAM = 100  # a program stands for so many of the cases asked for


@cocotb.test
async def random_programs(dut: Any) -> None:
    asked = job.load()
    params, clock = asked.params, Harness(dut)
    cycles, start = 0, time.perf_counter()
    runs = [
        (stall, k)
        for stall in asked.stalls
        for k in range(max(1, asked.cases // CASES_PER_PROGRAM))
    ]
    for done, (stall, k) in enumerate(runs, 1):
        try:
            await run_one(clock, params, seed=1000 * asked.seed + k, stall=stall)
        except AssertionError as problem:
            raise AssertionError(
                f"{params.slug}, program {k}, stall {stall:g}: {problem}"
            ) from None
        cycles += clock.cycle
        job.report(cases=done, cycles=cycles, seconds=time.perf_counter() - start)


async def run_one(clock: Harness, params: Any, seed: int, stall: float) -> None:
    """One program against golden; without stalls, cycle for cycle."""
    builder = random_program(params, seed)

    def tensor_at(line: int) -> str:
        stored = [o for o in builder.outputs if o.line <= line]
        return f"tensor {stored[-1].tensor}" if stored else "no result"

    await check_program(
        clock, params, builder.program, builder.memory, seed=seed, stall=stall, where=tensor_at
    )


@cocotb.test
async def subnormal_reciprocals(dut: Any) -> None:
    """1/x of every finite x from 2^14 on, and of -x.

    These are the shifted results of the approximation, of which a few lie in the middle between
    two values; random programs seldom have one.
    """
    asked = job.load()
    params = asked.params_as(AndaParams)
    b = Builder(params)
    large = np.arange(0x7400, 0x7C00, dtype=np.uint16)
    values = np.resize([large, large | 0x8000], (params.rows, -(-2 * len(large) // params.rows)))
    most = 8 * params.group  # elements that have room
    for first in range(0, values.shape[1], most):
        x = b.load(values[:, first : first + most])
        b.apply(Operation.RECIPROCAL, x, into=x)
        b.store(x)
        b.release(x.row)
    b.halt()
    await check_program(
        Harness(dut), params, b.program, b.memory, seed=asked.seed, stall=0.0, stream=True
    )
