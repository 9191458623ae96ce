"""Every combination that coverage of an accelerator asks for; one that is not reached fails."""

import time
from importlib import import_module
from typing import Any

import cocotb

from tilewright.verify import job
from tilewright.verify.coverage import Coverage
from tilewright.verify.machine.check import LATENCIES, check_program, check_stop
from tilewright.verify.machine.coverage import (
    error_coverage,
    instruction_coverage,
    latency_name,
    place_of,
    stall_name,
)
from tilewright.verify.machine.errors import BAD_LINE, empty_memory
from tilewright.verify.machine.host import Host
from tilewright.verify.streams import Harness

__all__ = ["every_combination"]


@cocotb.test
async def every_combination(dut: Any) -> None:
    """For each stall: a program on each memory, a random one too, and every wrong program."""
    asked, start = job.load(), time.perf_counter()
    params, clock = asked.params, Harness(dut)
    package = f"tilewright.verify.{params.block}_machine"
    directed = import_module(f"{package}.directed").directed_program
    random = import_module(f"{package}.workload").random_program
    instructions = instruction_coverage(params, asked.stalls)
    errors = error_coverage(params, asked.stalls)
    programs = cycles = 0
    for stall in asked.stalls:
        for k in range(len(LATENCIES)):
            seed = len(LATENCIES) * asked.seed + k
            drawn = random(params, seed)
            for program, memory in (directed(params, seed), (drawn.program, drawn.memory)):
                await check_program(
                    clock, params, program, memory, seed=seed, stall=stall, stream=True
                )
                _count(instructions, params, program, seed, stall)
                cycles += clock.cycle
                programs += 1
        programs += await _stops(clock, params, package, stall, errors)
        cycles += clock.cycle
    job.report(
        cases=programs,
        cycles=cycles,
        seconds=time.perf_counter() - start,
        crosses=[instructions.as_dict(), errors.as_dict()],
    )
    holes = instructions.holes + errors.holes
    assert not holes, f"{len(holes)} combinations were not reached, such as {holes[0]}"


def _count(found: Coverage, params: Any, program: list, seed: int, stall: float) -> None:
    for instruction in program:
        if place := place_of(params, instruction):
            found.hit(**place, memory=latency_name(seed), stall=stall_name(stall))


async def _stops(clock: Harness, params: Any, package: str, stall: float, errors: Coverage) -> int:
    """Every wrong program stops as golden does; their number."""
    bad = frozenset({BAD_LINE})
    host = Host(clock, params, empty_memory(params), bad_lines=bad, stall=stall)
    await host.start()
    wrong = import_module(f"{package}.errors").wrong_programs(params)
    for name, (program, error) in wrong.items():
        await check_stop(host, name, program, error, empty_memory(params), bad)
        errors.hit(error=error.name.lower(), stall=stall_name(stall))
    return len(wrong)
