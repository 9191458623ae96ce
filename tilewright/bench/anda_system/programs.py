"""Random programs on the accelerator: memory, events, counters and cycles are golden's."""

import time
from typing import Any

import cocotb
import numpy as np

from golden.anda_system.cycles import program_cycles
from golden.anda_system.executor import Machine
from golden.params.anda_system import Error, Register
from tilewright.bench import job
from tilewright.bench.anda_system.host import Host
from tilewright.bench.anda_system.workload import random_program
from tilewright.bench.streams import Bench

__all__ = ["random_programs"]

CASES_PER_PROGRAM = 100  # a program stands for so many of the cases asked for
LATENCIES = (1, 4, 30)  # cycles of the memory, in turn


@cocotb.test
async def random_programs(dut: Any) -> None:
    asked = job.load()
    params, clock = asked.params, Bench(dut)
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


async def run_one(clock: Bench, params: Any, seed: int, stall: float) -> None:
    """One program against golden; without stalls, cycle for cycle."""
    builder = random_program(params, seed)
    memory, wanted = builder.memory, builder.memory
    outcome = Machine(params, wanted).run(builder.program)
    assert outcome.error is Error.NONE, f"golden stops with {outcome.error.name}"
    latency = LATENCIES[seed % len(LATENCIES)]
    host = Host(clock, params, memory, latency=latency, stall=stall, seed=seed)
    await host.start()
    status = await host.run_program(builder.program)
    assert (status.error, status.instruction) == (Error.NONE, outcome.instruction), (
        f"ended with {status.error.name} at instruction {status.instruction},"
        f" expected a halt at {outcome.instruction}"
    )
    require_memory(builder, memory, wanted)
    saturated = await host.read(Register.EVENTS)
    assert saturated == outcome.saturated, f"saturated is {saturated}, not {outcome.saturated}"
    expected = dict(outcome.counts)
    if not stall:
        expected |= program_cycles(params, outcome, latency)
    counters = await host.counters()
    wrong = {c.name: (counters[c], want) for c, want in expected.items() if counters[c] != want}
    assert not wrong, f"counters (got, expected): {wrong}"


def require_memory(builder: Any, memory: np.ndarray, wanted: np.ndarray) -> None:
    """Every byte of external memory, with the tensor it belongs to in the message."""
    different = np.flatnonzero(memory != wanted)
    if not len(different):
        return
    first = int(different[0])
    line = first // builder.params.line_bytes
    stored = [o for o in builder.outputs if o.line <= line]
    where = f"tensor {stored[-1].tensor}" if stored else "no result"
    raise AssertionError(
        f"{len(different)} bytes differ, the first at {first:#x} ({where}):"
        f" got {memory[first]:#04x}, expected {wanted[first]:#04x}"
    )
