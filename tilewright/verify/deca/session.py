"""Shared by the tests of one simulation: the job, the parts around the PE, the report."""

from typing import Any

from tilewright.golden.params.deca import DecaParams
from tilewright.verify import job, session
from tilewright.verify.deca.core import Core
from tilewright.verify.deca.host import Host
from tilewright.verify.deca.memory import Memory, Store
from tilewright.verify.deca.workload import tile_coverage

JOB = job.load()
tell = session.tell
PARAMS = JOB.params_as(DecaParams)
COVERAGE = tile_coverage(JOB.stalls)
tell(coverage=COVERAGE)


class Session(session.Session):
    """One test, with its memory's content and its core; tiles are the cases."""

    def __init__(self, dut: Any, name: str):
        super().__init__(dut, name)
        top = 1 << (PARAMS.address_bits - 1)  # so that every bit of an address is in use
        self.store = Store(PARAMS, self.random, base=top + (self.random.getrandbits(12) << 20))
        self._core: Host | None = None

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
        self._count_tiles()
        await core.start()
        self._core = core

    def _count_tiles(self) -> None:
        if self._core is not None:
            self.cases += len(self._core.finished) + len(self._core.lost)
            self._core = None

    def close(self) -> None:
        self._count_tiles()
        super().close()


tile_test = session.test_in(Session)
