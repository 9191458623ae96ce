"""What the tests of one simulation share: the job, the parts around the PE, the report."""

import time
from collections.abc import Awaitable, Callable
from functools import wraps
from random import Random
from typing import Any

import cocotb
import numpy as np

from tilewright.golden.params.deca import DecaParams
from tilewright.verify import job
from tilewright.verify.deca.core import Core
from tilewright.verify.deca.host import Host
from tilewright.verify.deca.memory import Memory, Store
from tilewright.verify.deca.workload import tile_coverage
from tilewright.verify.streams import Harness

JOB = job.load()
PARAMS = JOB.params_as(DecaParams)
COVERAGE = tile_coverage(JOB.stalls)

# Of all tests so far.
_numbers: dict[str, Any] = {"cases": 0, "cycles": 0, "seconds": 0.0, "coverage": COVERAGE}


def tell(**numbers: Any) -> None:
    """Add something to the report of this simulation; ``coverage`` is that of tiles by default."""
    _numbers.update(numbers)
    job.report(**_numbers | {"coverage": _numbers["coverage"].as_dict()})


class Session:
    """One test: its random numbers, its clock, its memory's content, its core."""

    def __init__(self, dut: Any, name: str):
        # Independent of the other tests, so that each one can be run alone.
        self.rng = np.random.default_rng([JOB.seed, *name.encode()])
        self.random = Random(f"{JOB.seed} {name}")
        self.clock = Harness(dut)
        top = 1 << (PARAMS.address_bits - 1)  # so that every bit of an address is in use
        self.store = Store(PARAMS, self.random, base=top + (self.random.getrandbits(12) << 20))
        self._core: Host | None = None
        self._start = time.perf_counter()

    def memory(
        self,
        stall: float = 0.0,
        *,
        latency: tuple[int, int] | None = None,
        bandwidth: float | None = None,
        near: int | None = None,
    ) -> Memory:
        """A memory with this session's content; that of a core that stalls is late."""
        return Memory(
            PARAMS,
            self.store.line,
            self.random,
            latency=latency or ((1, round(60 * stall)) if stall else (4, 4)),
            bandwidth=1 - stall / 2 if bandwidth is None else bandwidth,
            near=near,
        )

    async def core(self, stall: float = 0.0, **memory: Any) -> Core:
        """The PE after a reset; ``memory`` as of :meth:`memory`."""
        coverage = COVERAGE if stall in JOB.stalls else None
        content = self.memory(stall, **memory)
        core = Core(self.clock, PARAMS, content, self.random, stall=stall, coverage=coverage)
        await self.enter(core)
        return core

    async def enter(self, core: Host) -> None:
        """Reset the PE for another core."""
        self._close_core()
        await core.start()
        self._core = core

    def _close_core(self) -> None:
        if self._core is not None:
            _numbers["cases"] += len(self._core.finished) + len(self._core.lost)
            _numbers["cycles"] += self._core.now
            self._core = None

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
