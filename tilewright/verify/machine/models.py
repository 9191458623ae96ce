"""Compiled programs of a language model on an accelerator: bits, counters and cycles."""

import time
from typing import Any

import cocotb

from tilewright.verify import job
from tilewright.verify.machine.check import check_program
from tilewright.verify.machine.model_workload import model_cases
from tilewright.verify.streams import Harness


@cocotb.test
async def steps_of_a_model(dut: Any) -> None:
    """Prompts, tokens, batches, heads."""
    await check_models(dut)


async def check_models(dut: Any, **formats: Any) -> None:
    """Without stalls all programs, cycle for cycle; the last one with every stall."""
    asked, start = job.load(), time.perf_counter()
    params, clock = asked.params, Harness(dut)
    cases = [(0.0, case) for case in model_cases(params, asked.seed, **formats)]
    cases += [(stall, cases[-1][1]) for stall in asked.stalls if stall]
    cycles = 0
    for number, (stall, case) in enumerate(cases):
        try:
            await check_program(
                clock,
                params,
                case.program.instructions,
                case.memory,
                seed=asked.seed + number,
                stall=stall,
                line=case.line,
            )
        except AssertionError as problem:
            raise AssertionError(f"{case.name}, stall {stall:g}: {problem}") from None
        cycles += clock.cycle
    job.report(cases=len(cases), cycles=cycles, seconds=time.perf_counter() - start)
