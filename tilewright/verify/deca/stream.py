"""Tiles in a row with a memory and a core: the cycle of every event.

``TILEWRIGHT_TASK`` holds the cases, as of ``tilewright.studies.runs.deca_rates``.
"""

import json
import os
from random import Random
from typing import Any

import numpy as np

from tilewright.golden.deca import core as golden
from tilewright.golden.deca.core import CoreParams
from tilewright.golden.deca.memory import L2Memory
from tilewright.golden.params.deca import TILE_ROWS, DecaTeplParams, Register
from tilewright.verify.deca.core import Core
from tilewright.verify.deca.memory import BelowL2
from tilewright.verify.deca.session import PARAMS, Session, tell, tile_test
from tilewright.verify.deca.tepl_core import Tepl, TeplCore
from tilewright.verify.deca.workload import (
    StreamCase,
    TileJob,
    in_regions,
    make_tiles,
    random_table,
    tile_jobs,
)

TASK = json.loads(os.environ["TILEWRIGHT_TASK"])


class Events:
    """The cycles of every tile's events, from the start of the stream on."""

    def __init__(self, tiles: int):
        self.start: int | None = None  # the stream's cycle 0
        # When its TEPL or store was taken, when it completed or its result was taken.
        self.cycles = {name: [0] * tiles for name in ("started", "first_row", "last_row", "ended")}

    def note(self, event: str, tile: int, now: int) -> int:
        """Write an event down; returns the cycle of the stream."""
        assert self.start is not None
        cycle = self.cycles[event][tile] = now - self.start
        return cycle

    def row(self, tile: int, row: int, now: int) -> None:
        if row == 0:
            self.note("first_row", tile, now)
        self.note("last_row", tile, now)


class TeplStream(TeplCore):
    """Dispatches TEPLs when golden's core does."""

    def __init__(self, s: Session, memory: BelowL2, jobs: list[TileJob], params: CoreParams):
        assert isinstance(PARAMS, DecaTeplParams)
        super().__init__(s.clock, PARAMS, memory, Random(1), mispredict=0, interrupt=0)
        self.jobs, self.events = jobs, Events(len(jobs))
        self.golden = golden.TeplCore(params, len(jobs))

    def step(self, cycle: int) -> bool:
        moved = super().step(cycle)
        start, number = self.events.start, self.golden.dispatched
        if start is None or self.offered is not None:
            return moved
        if self.golden.dispatches(cycle + 1 - start):
            self.offer(number, self.jobs[number])
            self.drivers["dispatch"].step(cycle)
        return moved

    def _went(self, name: str) -> None:
        super()._went(name)
        if name == "dispatch":
            self.events.note("started", self.golden.dispatched, self.now)
            self.golden.dispatched += 1

    def _wrote(self, register: int, row: int, data: int) -> Tepl:
        tepl = super()._wrote(register, row, data)
        self.events.row(tepl.number, row, self.now)
        return tepl

    def _completed(self, id: int, error: int) -> Tepl:
        tepl = super()._completed(id, error)
        self.golden.complete(self.events.note("ended", tepl.number, self.now), tepl.number)
        return tepl


class StoreStream(Core):
    """Stores, fences and reads rows when golden's core does."""

    def __init__(self, s: Session, memory: BelowL2, jobs: list[TileJob], params: CoreParams):
        super().__init__(s.clock, PARAMS, memory, Random(1))
        self.jobs, self.events = jobs, Events(len(jobs))
        self.golden = golden.StoreCore(params, len(jobs), PARAMS.loaders)
        self.rows = 0  # that have come

    def step(self, cycle: int) -> bool:
        moved = super().step(cycle)
        if self.events.start is None:
            return moved
        after = cycle + 1 - self.events.start
        tile, row = self.golden.store(after), self.golden.read(after)
        if tile is not None and not self.commands_waiting:
            k = tile % PARAMS.loaders
            self.give(k, self.jobs[tile])
            self.drivers[f"command{k}"].step(cycle)
        if row is not None and not self.wanted:
            self.read_row(row[0] % PARAMS.loaders, row[1], self.jobs[row[0]])
            self.drivers["read_request"].step(cycle)
        return moved

    def _went(self, name: str) -> None:
        super()._went(name)
        if name.startswith("command"):
            self.golden.store_taken(self.events.note("started", self.golden.stored, self.now))
        elif name == "read_request":
            assert self.events.start is not None
            self.golden.row_asked(self.now - self.events.start)

    def _result(self, k: int, job: TileJob) -> None:
        assert self.events.start is not None
        tile = self.golden.result(self.now - self.events.start, k)
        self.events.note("ended", tile, self.now)

    def _row(self, word: int) -> None:
        super()._row(word)
        self.events.row(*divmod(self.rows, TILE_ROWS), self.now)
        self.rows += 1


@tile_test
async def streams(s: Session) -> None:
    """Every case, one after the other, each from a reset on."""
    results = []
    for fields in TASK["cases"]:
        results.append(await run_case(s, StreamCase.from_dict(fields)))
        tell(streams=results)


async def run_case(s: Session, case: StreamCase) -> dict[str, Any]:
    s.store.base, s.store.content = case.base, bytearray()
    tiles = make_tiles(case)
    lut = random_table(np.random.default_rng(1), min(case.config.code_bits, 8))
    jobs = tile_jobs(tiles, lut, in_regions(tiles, s.store, case.alignment))
    model = L2Memory(case.memory)
    memory = BelowL2(PARAMS, s.store.line, model)
    kind = TeplStream if isinstance(PARAMS, DecaTeplParams) else StoreStream
    core = kind(s, memory, jobs, case.core)
    await s.enter(core)
    if jobs[0].lut is not None:
        await core.table(jobs[0].lut)
    await core.write(Register.CONFIG, jobs[0].config_word)
    await core.write(Register.PREFETCH, case.degree)
    start = core.events.start = core.now
    # A full queue of a slow channel takes longer than what a bench usually waits.
    await s.clock.run(lambda: core.golden.finished, patience=20_000)
    end = core.now
    await core.cycles(2)  # the last row is on its way
    return {
        "times": core.events.cycles | {"product_ends": core.golden.product_ends},
        "requests": [[now - start, line, k] for now, line, k in memory.requests if now < end],
        "lines_read": model.read,
        "lines_missed": model.missed,
        "lines_prefetched": model.prefetched,
        "prefetches_dropped": model.dropped,
    }
