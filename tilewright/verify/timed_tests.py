"""The cocotb test of blocks with a cycle model: golden results, stream rules, every cycle."""

import time
from typing import Any, NamedTuple

import cocotb
import numpy as np

from tilewright.golden.params.block import BlockParams
from tilewright.verify import job, stream_bench_of
from tilewright.verify.bench import TimedBench
from tilewright.verify.stream_tests import Data, compare, most_words, prepare
from tilewright.verify.streams import Harness, StreamDriver, StreamMonitor

SETTLE = 40  # cycles past the last word, in which nothing more may come
SLOW = 0.95  # a consumer that is ready this rarely makes results wait for groups on end


class Phase(NamedTuple):
    """One pass of all words: how often each side waits."""

    inputs: float = 0.0
    outputs: float = 0.0
    patient: bool = False  # the consumer is ready only for a word that waits


@cocotb.test
async def equals_golden(dut: Any) -> None:
    asked = job.load()
    params, clock = asked.params, Harness(dut)
    rng = np.random.default_rng(asked.seed)
    data = prepare(params, stream_bench_of(params).stimulus(params, rng, asked.cases))
    cycles, start = 0, time.perf_counter()
    phases = [Phase(stall, stall) for stall in asked.stalls]
    for phase in (*phases, Phase(patient=True), Phase(outputs=SLOW)):
        drivers, monitors = await run(clock, params, data, phase, asked.seed)
        compare(params, data, {m.name: m.words for m in monitors}, in_order=True)
        if phase == Phase():
            require_cycles(params, data, drivers, monitors)
        cycles += clock.cycle
    job.report(cases=asked.cases, cycles=cycles, seconds=time.perf_counter() - start)


async def run(
    clock: Harness, params: BlockParams, data: Data, phase: Phase, seed: int
) -> tuple[list[StreamDriver], list[StreamMonitor]]:
    """Send all words once, and return both ends of the streams."""
    drivers = [
        StreamDriver(clock.dut, p.name, stall=phase.inputs, seed=seed) for p in params.inputs
    ]
    monitors = [
        StreamMonitor(
            clock.dut,
            p.name,
            stall=phase.outputs,
            seed=seed,
            patient=phase.patient,
            most=most_words(data.wanted[p.name]),
        )
        for p in params.outputs
    ]
    await clock.reset([*drivers, *monitors])
    for driver in drivers:
        driver.send(data.sent[driver.name])
    await clock.run(
        lambda: (
            clock.quiet > SETTLE
            and all(driver.idle for driver in drivers)
            and not any(monitor.waiting for monitor in monitors)
        )
    )
    return drivers, monitors


def require_cycles(
    params: BlockParams, data: Data, drivers: list[StreamDriver], monitors: list[StreamMonitor]
) -> None:
    """Require each result in the cycle that the bench's ``cycles`` gives."""
    start = drivers[0].taken[0]
    bench = stream_bench_of(params)
    assert isinstance(bench, TimedBench), f"the bench of {params.block} has no cycle model"
    wanted = bench.cycles(params, data.inputs).tolist()
    got = [cycle - start for cycle in monitors[0].given]
    for k, (have, want) in enumerate(zip(got, wanted, strict=True)):
        assert have == want, f"result {k} came in cycle {have}, the model says {want}"
