"""Shared by the tests of one simulation: the job, the parts around the PE, the report."""

from typing import Any

from numpy.typing import NDArray

from tilewright.golden.params.deca import DecaParams, TileConfig
from tilewright.verify import job, session
from tilewright.verify.deca.core import Core, Host
from tilewright.verify.deca.memory import Memory, Store
from tilewright.verify.deca.workload import (
    TileJob,
    random_table,
    random_tiles,
    scatter,
    tile_coverage,
    tile_jobs,
)

JOB = job.load()
tell = session.tell
PARAMS = JOB.params_as(DecaParams)
COVERAGE = tile_coverage(JOB.stalls)


class Session(session.Session):
    """One test, with its memory's content and its core; tiles are the cases."""

    def __init__(self, dut: Any, name: str):
        super().__init__(dut, name)
        top = 1 << (PARAMS.address_bits - 1)  # so that every bit of an address is in use
        self.store = Store(PARAMS, self.random, base=top + (self.random.getrandbits(12) << 20))
        self._core: Host | None = None

    def table(self, config: TileConfig) -> NDArray:
        """Random entries for codes of a configuration, or wider ones; 16 bits need none."""
        return random_table(self.rng, min(config.code_bits, 8))

    def jobs(
        self,
        config: TileConfig,
        count: int,
        density: float,
        lut: NDArray | None = None,
        alignment: str | None = None,
    ) -> list[TileJob]:
        """Random tiles anywhere in memory; ``alignment`` is that of their data."""
        tiles = random_tiles(self.rng, config, count, density)
        lut = self.table(config) if lut is None else lut
        return tile_jobs(tiles, lut, scatter(tiles, self.store, self.random, alignment))

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
        tell(coverage=COVERAGE)
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
