"""The cocotb test of the array: operands first, then the sums; every cycle as the model says."""

import time
from functools import partial
from typing import Any

import cocotb
import numpy as np

from tilewright.verify import job, stream_bench_of
from tilewright.verify.stream_tests import compare, most_words, prepare
from tilewright.verify.streams import Harness, StreamDriver, StreamMonitor
from tilewright.verify.timed_tests import SETTLE, require_cycles


@cocotb.test
async def equals_golden(dut: Any) -> None:
    asked = job.load()
    params, clock = asked.params, Harness(dut)
    rng = np.random.default_rng(asked.seed)
    data = prepare(params, stream_bench_of(params).stimulus(params, rng, asked.cases))
    cycles, start = 0, time.perf_counter()
    # Last, results that nobody fetches for long while sums keep coming.
    for stall, result_stall in (*zip(asked.stalls, asked.stalls, strict=True), (0.0, 0.9)):
        load, sums = (StreamDriver(dut, n, stall=stall, seed=asked.seed) for n in ("load", "i"))
        most = most_words(data.wanted["o"])
        results = StreamMonitor(dut, "o", stall=result_stall, seed=asked.seed, most=most)
        await clock.reset([load, sums, results])
        load.send(data.sent["load"])
        await clock.run(partial(_all_idle, [load]))
        sums.send(data.sent["i"])
        clock.quiet = 0
        await clock.run(partial(_is_settled, clock, sums, results))
        compare(params, data, {"o": results.words}, in_order=True)
        if stall == result_stall == 0:
            require_cycles(params, data, [sums], [results])
        cycles += clock.cycle
    job.report(cases=asked.cases, cycles=cycles, seconds=time.perf_counter() - start)


def _all_idle(drivers: list[StreamDriver]) -> bool:
    return all(driver.idle for driver in drivers)


def _is_settled(clock: Harness, sums: StreamDriver, results: StreamMonitor) -> bool:
    return clock.quiet > SETTLE and sums.idle and not results.waiting
