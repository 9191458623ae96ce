"""What the tests of one simulation share: the job, the parts around the element, the report."""

import time
from collections.abc import Awaitable, Callable
from functools import wraps
from random import Random
from typing import Any

import cocotb
import numpy as np

from tilewright.bench import job
from tilewright.bench.deca_pe.core import Core
from tilewright.bench.deca_pe.memory import Memory, Store
from tilewright.bench.deca_pe.workload import tile_coverage
from tilewright.bench.streams import Bench

__all__ = ["COVERAGE", "JOB", "PARAMS", "Session", "tell", "tile_test"]

JOB = job.load()
PARAMS = JOB.params
COVERAGE = tile_coverage(JOB.stalls)

_numbers: dict[str, Any] = {"cases": 0, "cycles": 0, "seconds": 0.0}  # of all tests so far


def tell(**numbers: Any) -> None:
    """Add something to the report of this simulation."""
    _numbers.update(numbers)
    job.report(**_numbers, coverage=COVERAGE.as_dict())


class Session:
    """One test: its random numbers, its clock, its memory's content, its cores."""

    def __init__(self, dut: Any, name: str):
        # Independent of the other tests, so that each one can be run alone.
        self.rng = np.random.default_rng([JOB.seed, *name.encode()])
        self.random = Random(f"{JOB.seed} {name}")
        self.clock = Bench(dut)
        top = 1 << (PARAMS.address_bits - 1)  # so that every bit of an address is in use
        self.store = Store(PARAMS, self.random, base=top + (self.random.getrandbits(12) << 20))
        self.cores: list[Core] = []
        self._start = time.perf_counter()

    async def core(
        self,
        stall: float = 0.0,
        *,
        latency: tuple[int, int] | None = None,
        bandwidth: float | None = None,
        near: int | None = None,
    ) -> Core:
        """The element after a reset; a core that stalls has a memory that is late."""
        self._close_core()
        memory = Memory(
            PARAMS,
            self.store.line,
            self.random,
            latency=latency or ((1, round(60 * stall)) if stall else (4, 4)),
            bandwidth=1 - stall / 2 if bandwidth is None else bandwidth,
            near=near,
        )
        known = stall in JOB.stalls
        core = Core(
            self.clock,
            PARAMS,
            memory,
            self.random,
            stall=stall,
            coverage=COVERAGE if known else None,
        )
        await core.start()
        self.cores.append(core)
        return core

    def _close_core(self) -> None:
        if self.cores:
            core = self.cores.pop()
            _numbers["cases"] += len(core.finished) + len(core.lost)
            _numbers["cycles"] += core.now

    def close(self) -> None:
        self._close_core()
        _numbers["seconds"] += time.perf_counter() - self._start
        tell()


def tile_test(body: Callable[[Session], Awaitable[None]]) -> Any:
    """A cocotb test whose tiles, cycles and coverage count in the report."""

    @wraps(body)
    async def test(dut: Any) -> None:
        session = Session(dut, body.__name__)
        try:
            await body(session)
        finally:
            session.close()

    del test.__wrapped__  # cocotb reads the parameters of what it finds
    return cocotb.test(test)
