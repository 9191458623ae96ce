"""Tiles in a row with a memory and a core: the cycle of every event.

``TILEWRIGHT_TASK`` holds the cases, as of ``tilewright.studies.runs.deca_rates``.
"""

import json
import os
from random import Random
from typing import Any

import numpy as np

from tilewright.golden.deca.core import CoreParams, StoreCore, TeplCore
from tilewright.golden.deca.memory import L2Memory
from tilewright.golden.params.deca import (
    TEPL_ID_BITS,
    TILE_REGISTER_BITS,
    TILE_ROWS,
    DecaTeplParams,
    Register,
)
from tilewright.verify.deca.host import Host
from tilewright.verify.deca.memory import BelowL2
from tilewright.verify.deca.session import PARAMS, Session, tell, tile_test
from tilewright.verify.deca.stream_case import StreamCase, make_tiles
from tilewright.verify.deca.workload import TileJob, in_regions, random_table, tile_jobs
from tilewright.verify.streams import Harness, pack_word, unpack_word

TASK = json.loads(os.environ["TILEWRIGHT_TASK"])


class StreamHost(Host):
    """A core that does nothing but use tiles in program order."""

    def __init__(self, clock: Harness, memory: BelowL2, jobs: list[TileJob]):
        super().__init__(clock, PARAMS, memory, Random(1))  # type: ignore[arg-type]
        self.jobs = jobs
        self.start_cycle: int | None = None  # the stream's cycle 0
        self.first_row = [0] * len(jobs)
        self.last_row = [0] * len(jobs)
        self.started = [0] * len(jobs)  # dispatch, or store, taken
        self.ended = [0] * len(jobs)  # completed, or result taken

    @property
    def stream_cycle(self) -> int:
        assert self.start_cycle is not None
        return self.now - self.start_cycle

    def check(self, tile: int, row: int, data: int) -> None:
        job = self.jobs[tile]
        assert data == job.rows[row], f"tile {tile}, row {row}: {data:#x}, not {job.rows[row]:#x}"
        if row == 0:
            self.first_row[tile] = self.stream_cycle
        self.last_row[tile] = self.stream_cycle

    @property
    def events(self) -> dict[str, list[int]]:
        return {
            "started": self.started,
            "first_row": self.first_row,
            "last_row": self.last_row,
            "ended": self.ended,
        }


class TeplHost(StreamHost):
    """By TEPLs."""

    def __init__(self, clock: Harness, memory: BelowL2, jobs: list[TileJob], params: CoreParams):
        super().__init__(clock, memory, jobs)
        self.core = TeplCore(params, len(jobs))
        self.offered = False
        self.rows = [0] * len(jobs)
        self.loading: dict[int, list[int]] = {}  # register -> tiles
        # A core that renames more registers than DECA has names for gives some the same name.
        self.names = min(params.registers, 1 << TILE_REGISTER_BITS)

    def step(self, cycle: int) -> bool:
        moved = super().step(cycle)
        waiting = self.start_cycle is not None and not self.offered
        if waiting and self.core.dispatches(self.stream_cycle + 1):
            self._dispatch()
            self.drivers["dispatch"].step(cycle)
        return moved

    def _dispatch(self) -> None:
        n = self.core.dispatched
        about = {"id": n % (1 << TEPL_ID_BITS), "register": n % self.names, "ready": 1}
        self.drivers["dispatch"].send(
            [pack_word(self.ports["dispatch"], about | self.jobs[n].fields)]
        )
        self.offered = True

    def _went(self, name: str) -> None:
        if name == "dispatch":
            n = self.core.dispatched
            self.started[n] = self.stream_cycle
            self.loading.setdefault(n % self.names, []).append(n)
            self.core.dispatched += 1
            self.offered = False

    def _came(self, name: str, word: int) -> None:
        if name == "tile_write":
            fields = unpack_word(self.ports[name], word)
            tile = self.loading[fields["register"]][0]
            assert fields["row"] == self.rows[tile]
            self.rows[tile] += 1
            self.check(tile, fields["row"], fields["data"])
            if fields["row"] == TILE_ROWS - 1:
                self.loading[fields["register"]].pop(0)
        elif name == "complete":
            fields = unpack_word(self.ports[name], word)
            assert not fields["error"], f"TEPL ended with error {fields['error']}"
            low = len(self.core.product_ends)
            tile = low + (fields["id"] - low) % (1 << TEPL_ID_BITS)
            self.ended[tile] = self.stream_cycle
            self.core.complete(self.stream_cycle, tile)
        else:
            super()._came(name, word)


class StoreHost(StreamHost):
    """By stores and fences."""

    def __init__(self, clock: Harness, memory: BelowL2, jobs: list[TileJob], params: CoreParams):
        super().__init__(clock, memory, jobs)
        self.core = StoreCore(params, len(jobs), PARAMS.loaders)
        self.dut.squash.value = 0
        self.asked: list[tuple[int, int]] = []
        self.storing = self.reading = False

    def step(self, cycle: int) -> bool:
        moved = super().step(cycle)
        if self.start_cycle is not None:
            self._offer(cycle)
        return moved

    def _offer(self, cycle: int) -> None:
        after = self.stream_cycle + 1
        store, read = self.core.store(after), self.core.read(after)
        if store is not None and not self.storing:
            command = self.drivers[f"command{store % PARAMS.loaders}"]
            command.send([pack_word(self.ports["command0"], self.jobs[store].fields)])
            command.step(cycle)
            self.storing = True
        if read is not None and not self.reading:
            tile, row = read
            self.drivers["read_request"].send([tile % PARAMS.loaders | row << 1])
            self.drivers["read_request"].step(cycle)
            self.reading = True

    def _went(self, name: str) -> None:
        if name.startswith("command"):
            self.started[self.core.stored] = self.stream_cycle
            self.core.store_taken(self.stream_cycle)
            self.storing = False
        elif name == "read_request":
            found = self.core.read(self.stream_cycle)
            assert found is not None
            self.asked.append(found)
            self.core.row_asked(self.stream_cycle)
            self.reading = False

    def _came(self, name: str, word: int) -> None:
        if name.startswith("done"):
            assert not word, f"tile ended with error {word}"
            tile = self.core.result(self.stream_cycle, int(name.removeprefix("done")))
            self.ended[tile] = self.stream_cycle
        elif name == "read_response":
            tile, row = self.asked.pop(0)
            data, full = word & ((1 << PARAMS.line_bits) - 1), word >> PARAMS.line_bits
            assert full
            self.check(tile, row, data)
        else:
            super()._came(name, word)


@tile_test
async def streams(s: Session) -> None:
    """Every case, one after the other, each from a reset on."""
    results = []
    for fields in TASK["cases"]:
        results.append(await run_case(s, StreamCase.from_dict(fields)))
        tell(streams=results)


async def run_case(s: Session, case: StreamCase) -> dict[str, Any]:
    config = case.config
    s.store.base, s.store.content = case.base, bytearray()
    tiles = make_tiles(case)
    lut = random_table(np.random.default_rng(1), min(config.code_bits, 8))
    jobs = tile_jobs(tiles, lut, in_regions(tiles, s.store, case.alignment))
    model = L2Memory(case.memory)
    memory = BelowL2(PARAMS, s.store.line, model)
    kind = TeplHost if isinstance(PARAMS, DecaTeplParams) else StoreHost
    host = kind(s.clock, memory, jobs, case.core)
    await s.enter(host)
    if jobs[0].lut is not None:
        await host.load_table(jobs[0].lut)
    await host.write(Register.CONFIG, jobs[0].config_word)
    await host.write(Register.PREFETCH, case.degree)
    start = host.now
    host.start_cycle = start
    # A full queue of a slow channel takes longer than what a bench usually waits.
    await s.clock.run(lambda: host.core.finished, patience=20_000)
    end = host.now
    await host.cycles(2)  # the last row is on its way
    requests = [[cycle - start, line, k] for cycle, line, k in memory.requests if cycle < end]
    return {
        **host.events,
        "product_ends": host.core.product_ends,
        "requests": requests,
        "read": model.read,
        "missed": model.missed,
        "prefetched": model.prefetched,
        "dropped": model.dropped,
    }
