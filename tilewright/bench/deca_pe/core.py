"""A core's side of the DECA processing element, for benches: registers, tiles, rows."""

from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from random import Random
from typing import Any

import cocotb
import numpy as np
from cocotb.clock import Clock
from cocotb.triggers import FallingEdge, RisingEdge

from golden.deca import CompressedTiles, decompress_tiles, lay_out
from golden.pack import pack, unpack
from golden.params.deca import (
    LUT_ENTRIES,
    ROW_BYTES,
    TILE_ROWS,
    DecaParams,
    Register,
    TileError,
)
from tilewright.bench.cycle import Sink, Source
from tilewright.bench.deca_pe.memory import Memory

__all__ = ["Core", "Job", "altered", "command_fields", "jobs_of"]


@dataclass
class Job:
    """One tile: its command, the registers it needs, and what must come back."""

    config_word: int
    command: int  # packed command fields
    rows: list[int]  # expected rows; empty where the tile must fail
    error: TileError = TileError.OK
    lut: tuple[int, ...] | None = None  # None: any
    cycles: int | None = None
    result: TileError | None = None  # filled in
    done_at: int | None = None
    squashed: bool = False


def jobs_of(
    params: DecaParams, tiles: CompressedTiles, lut: np.ndarray, base: int = 0, alignment: int = 1
) -> tuple[list[Job], Callable[[int], bytes]]:
    """Jobs of some compressed tiles laid out in memory, and the memory's content."""
    image = lay_out(tiles, base, alignment)
    port = next(p for p in params.inputs if p.name == "command0")
    commands = pack(port, image.commands)
    dense = decompress_tiles(lut, tiles).astype("<u2" if not tiles.config.int8 else "u1")
    raw = dense.view(np.uint8).reshape(len(tiles), TILE_ROWS, ROW_BYTES)
    table = tuple(int(v) for v in lut)
    jobs = [
        Job(
            tiles.config.encode(),
            command,
            [int.from_bytes(row.tobytes(), "little") for row in rows],
            lut=None if tiles.config.code_bits == 16 else table,
        )
        for command, rows in zip(commands, raw, strict=True)
    ]
    return jobs, image.line


def command_fields(params: DecaParams, command: int) -> dict[str, int]:
    """A packed command in readable form."""
    port = next(p for p in params.inputs if p.name == "command0")
    return {name: int(column[0]) for name, column in unpack(port, [command]).items()}


def altered(params: DecaParams, command: int, **changes: int) -> int:
    """A packed command with some fields changed by so much."""
    port = next(p for p in params.inputs if p.name == "command0")
    fields = command_fields(params, command)
    fields |= {name: fields[name] + by for name, by in changes.items()}
    [word] = pack(port, {name: np.array([value]) for name, value in fields.items()})
    return word


class Core:
    """Drives every port of the element cycle by cycle and keeps the score.

    Jobs go to their loaders in order; results are compared with what they must be; a mismatch
    raises with the job, the row and both values in hexadecimal.
    """

    def __init__(
        self, dut: Any, params: DecaParams, memory: Memory, rng: Random, stall: float = 0.0
    ):
        self.dut, self.params, self.memory, self.rng = dut, params, memory, rng
        self.now = 0
        self.sources = {
            p.name: Source(dut, p.name, rng, 0.0 if p.name == "mem_response" else stall)
            for p in params.inputs
        }
        self.sinks = {p.name: Sink(dut, p.name, rng, stall) for p in params.outputs}
        self.sinks["mem_request"].stall = min(stall, 0.3)
        self.ports = {p.name: p for p in (*params.inputs, *params.outputs)}
        self.waiting: list[deque[Job]] = [deque() for _ in range(params.loaders)]  # given, not done
        self.taken = [0] * params.loaders  # of those, how many the element has taken
        self.wanted: deque[tuple[int, int, Job]] = deque()  # (tout, row, job) to ask for
        self.reading: deque[tuple[int, int, Job]] = deque()  # asked for
        self.finished: list[Job] = []
        self.answers: deque[int] = deque()  # register responses
        self.squashing = 0
        self.open = [False] * params.loaders  # the loader would have taken a command this cycle
        dut.squash.value = 0

    async def start(self) -> None:
        cocotb.start_soon(Clock(self.dut.clk, 10, "ns").start())
        self.dut.rst.value = 1
        for _ in range(3):
            await RisingEdge(self.dut.clk)
        self.dut.rst.value = 0

    async def cycle(self) -> None:
        """One clock cycle of everything."""
        word = self.memory.answer(self.now)
        if word is not None:
            self.sources["mem_response"].words.append(word)
        for source in self.sources.values():
            source.drive()
        for sink in self.sinks.values():
            sink.drive()
        await FallingEdge(self.dut.clk)
        self._given()
        self._collect()
        await RisingEdge(self.dut.clk)
        self.now += 1
        if self.squashing:
            self.dut.squash.value = 0
            self.squashing = 0

    def _given(self) -> None:
        self.open = [
            bool(int(self.sources[f"command{k}"].ready.value)) for k in range(self.params.loaders)
        ]
        for name, source in self.sources.items():
            if source.sample() is None:
                continue
            if name == "read_request":
                self.reading.append(self.wanted.popleft())
            elif name.startswith("command"):
                self.taken[int(name.removeprefix("command"))] += 1

    def _collect(self) -> None:
        request = self.sinks["mem_request"].sample()
        if request is not None:
            self.memory.request(self.now, request)
        response = self.sinks["mmio_response"].sample()
        if response is not None:
            self.answers.append(response)
        row = self.sinks["read_response"].sample()
        if row is not None:
            self._row(row)
        for k in range(self.params.loaders):
            error = self.sinks[f"done{k}"].sample(may_vanish=bool(self.squashing >> k & 1))
            if error is not None and not self.squashing >> k & 1:
                self._done(k, TileError(error))

    def _done(self, k: int, error: TileError) -> None:
        assert self.waiting[k], f"loader {k} announced a tile that nobody asked for"
        job = self.waiting[k].popleft()
        self.taken[k] -= 1
        job.result, job.done_at = error, self.now
        assert error == job.error, f"loader {k}: tile ended {error.name}, expected {job.error.name}"
        if error is not TileError.OK:
            self.finished.append(job)
            return
        for row in range(TILE_ROWS):
            self.sources["read_request"].words.append(k | row << 1)
            self.wanted.append((k, row, job))

    def _row(self, word: int) -> None:
        k, row, job = self.reading.popleft()
        data, full = word & ((1 << self.params.line_bits) - 1), word >> self.params.line_bits
        if job.squashed:
            return
        assert full, f"loader {k}: row {row} is not full although its tile is done"
        assert data == job.rows[row], (
            f"loader {k}, config {job.config_word:#x}, row {row}:\n"
            f"  got      {data:0128x}\n  expected {job.rows[row]:0128x}"
        )
        if row == TILE_ROWS - 1:
            self.finished.append(job)

    # What a program does.

    async def until(self, condition: Callable[[], bool], limit: int, what: str) -> None:
        for _ in range(limit):
            if condition():
                return
            await self.cycle()
        raise AssertionError(f"after {limit} cycles still waiting for {what}")

    async def access(self, address: int, value: int | None = None) -> tuple[int, bool]:
        """Write (or read, without a value) a register: data and whether it was refused."""
        [word] = pack(
            self.ports["mmio_request"],
            {
                "address": np.array([address]),
                "write": np.array([int(value is not None)]),
                "data": np.array([value or 0], dtype=np.uint64),
            },
        )
        self.sources["mmio_request"].words.append(word)
        await self.until(lambda: bool(self.answers), 2000, f"register {address:#x}")
        answer = self.answers.popleft()
        return answer & (2**64 - 1), bool(answer >> 64)

    async def write(self, address: int, value: int) -> None:
        _, refused = await self.access(address, value)
        assert not refused, f"write of {value:#x} to register {address:#x} refused"

    async def load_table(self, lut: Sequence[int]) -> None:
        for k in range(LUT_ENTRIES):
            await self.write(Register.LUT + 8 * k, int(lut[k]))

    def give(self, k: int, job: Job) -> None:
        """Command ``job`` to loader ``k`` with the configuration now in force."""
        self.waiting[k].append(job)
        self.sources[f"command{k}"].words.append(job.command)

    @property
    def commands_waiting(self) -> bool:
        return any(self.sources[f"command{k}"].words for k in range(self.params.loaders))

    @property
    def quiet(self) -> bool:
        return not (self.wanted or self.reading or any(self.waiting) or self.commands_waiting)

    async def squash(self, k: int) -> list[Job]:
        """Abort loader ``k`` in this cycle; the jobs that are lost."""
        self.squashing = 1 << k
        self.dut.squash.value = self.squashing
        await self.cycle()
        lost = [self.waiting[k].popleft() for _ in range(self.taken[k])]
        self.taken[k] = 0
        unread = {id(job): job for t, _, job in (*self.wanted, *self.reading) if t == k}
        for job in (*lost, *unread.values()):
            job.squashed = True
        # The core no longer asks for rows that are gone, except for one already on offer.
        requests = self.sources["read_request"]
        pairs = list(zip(requests.words, self.wanted, strict=True))
        kept = [p for n, p in enumerate(pairs) if p[1][0] != k or (n == 0 and requests.offering)]
        requests.words = deque(word for word, _ in kept)
        self.wanted = deque(entry for _, entry in kept)
        return [*unread.values(), *lost]

    async def run(self, jobs: Sequence[Job], limit: int = 3000, ahead: int = 2) -> None:
        """All jobs, alternating loaders, ``ahead`` commands given at most per loader."""
        config: int | None = None
        table: tuple[int, ...] | None = None
        for number, job in enumerate(jobs):
            k = number % self.params.loaders
            if job.lut is not None and job.lut != table:
                await self.until(lambda: self.quiet, limit, "the tiles before a table change")
                await self.load_table(job.lut)
                table = job.lut
            if job.config_word != config:
                await self.until(lambda: not self.commands_waiting, limit, "a command")
                await self.write(Register.CONFIG, job.config_word)
                config = job.config_word
            await self.until(
                lambda k=k: len(self.waiting[k]) < ahead, limit, f"loader {k} (job {number})"
            )
            self.give(k, job)
        await self.until(lambda: self.quiet, limit, "the last tiles")
