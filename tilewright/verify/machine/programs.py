"""Random and directed programs: memory, events, counters and cycles are golden's."""

from tilewright.verify.machine.accelerators import bench_side
from tilewright.verify.machine.check import LATENCIES, check_program
from tilewright.verify.session import Session, system_test

CASES_PER_PROGRAM = 100  # a program stands for so many of the cases asked for


@system_test
async def random_programs(s: Session) -> None:
    """Each program with every stall; without stalls, cycle for cycle."""
    numbers = range(max(1, s.job.cases // CASES_PER_PROGRAM))
    for stall, k in [(stall, k) for stall in s.job.stalls for k in numbers]:
        seed = 1000 * s.job.seed + k
        b = bench_side(s.params).random_program(s.params, seed)
        with s.case(f"{s.params.slug}, program {k}, stall {stall:g}"):
            await check_program(s, b.program, b.memory, seed=seed, stall=stall)


@system_test
async def directed_programs(s: Session) -> None:
    """Every instruction on one row or group and on several, streamed from memories of each latency.

    Without stalls, cycle for cycle; one of them under the longest stalls.
    """
    for stall, k in [*((0.0, k) for k in range(len(LATENCIES))), (max(s.job.stalls), 0)]:
        seed = len(LATENCIES) * s.job.seed + k
        program, memory = bench_side(s.params).directed_program(s.params, seed)
        with s.case(f"program {k}, stall {stall:g}"):
            await check_program(s, program, memory, seed=seed, stall=stall, stream=True)
