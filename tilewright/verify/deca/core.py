"""A core's side of the DECA processing element, for benches: registers, tiles, rows, squashes."""

from collections import deque
from collections.abc import Callable, Sequence
from random import Random
from typing import Any

from tilewright.golden.params.block import pack_fields
from tilewright.golden.params.deca import LUT_ENTRIES, TILE_ROWS, DecaParams, Register, TileError
from tilewright.verify import host
from tilewright.verify.coverage import Coverage
from tilewright.verify.deca.memory import Memory
from tilewright.verify.deca.workload import Squash, TileJob, stall_name
from tilewright.verify.streams import Harness, read

Row = tuple[int, int, TileJob | None]  # TOut, row, its tile; None: it must be empty
# A core that waits for its tiles moves words on these ports alone, and fewer than so many: tiles
# have 25 lines at most.
WAITING_PORTS = ("mem_request", "mem_response", "mmio_request", "mmio_response")
MOST_WORDS_WAITING = 20_000


class Host(host.Host):
    """The memory and the registers of the PE, on whatever other ports.

    A PE that only talks to its memory, or is only asked for its status, without end, fails the
    test.
    """

    params: DecaParams

    def __init__(
        self,
        clock: Harness,
        params: DecaParams,
        memory: Memory,
        rng: Random,
        *,
        stall: float = 0.0,
        coverage: Coverage | None = None,
    ):
        super().__init__(clock, params, stall=stall, seed=rng.getrandbits(32))
        self.memory, self.rng, self.coverage = memory, rng, coverage
        self.drivers["mem_response"].stall = 0.0  # the memory has its own ways to be late
        self.monitors["mem_request"].stall = min(stall, 0.3)
        self.finished: list[TileJob] = []
        self.lost: list[TileJob] = []  # squashed
        self._words_waiting = 0  # since anything else moved, or a register was written

    def _came(self, name: str, word: int) -> None:
        if name == "mem_request":
            loader = self.memory.request(self.now, word)
            if loader is not None:
                self._asked(loader)

    def _asked(self, loader: int) -> None:
        """A loader has asked for the last line of ``memory.requests``."""

    def _answer(self, now: int) -> None:
        word = self.memory.answer(now)
        if word is not None:
            self.drivers["mem_response"].send([word])

    def _moved(self, name: str) -> None:
        self._words_waiting = self._words_waiting + 1 if name in WAITING_PORTS else 0
        if self._words_waiting > MOST_WORDS_WAITING:
            raise AssertionError(
                f"no tile moved while memory and registers moved {MOST_WORDS_WAITING} words:"
                f" {self.progress()}"
            )

    def progress(self) -> str:
        return f"{len(self.memory.waiting)} lines due"

    # Operations of a program.

    async def until(self, condition: Callable[[], bool]) -> None:
        await self.clock.run(condition)

    async def cycles(self, count: int) -> None:
        end = self.now + count
        await self.clock.run(lambda: self.now >= end)

    def request(self, address: int, value: int | None) -> None:
        if value is not None:
            self._words_waiting = 0
        super().request(address, value)

    async def settle(self) -> None:
        """Nothing is due any more, and no answer went astray."""
        await self.until(lambda: not self.memory.waiting)
        await self.cycles(4)
        assert (await self.access(Register.EVENTS))[0] == 0, "an answer found no request"

    async def table(self, values: Sequence[int] | None = None) -> list[int]:
        """Write every entry of the table, or read it, one request after the other."""
        for k in range(LUT_ENTRIES):
            self.request(Register.LUT + 8 * k, None if values is None else values[k])
        await self.until(lambda: len(self.answers) == LUT_ENTRIES)
        assert not any(answer["error"] for answer in self.answers), "a table entry was refused"
        saved = [answer["data"] for answer in self.answers]
        self.answers.clear()
        return saved


class Core(Host):
    """Gives tiles to the loaders and checks their results.

    Tiles go to their loaders in order; results are compared with the expected ones, and a
    mismatch raises with the tile, the row and both values in hexadecimal. A core that stalls also
    reads the rows of a tile in any order. Results are counted in ``coverage``.
    """

    def __init__(self, *host: Any, **options: Any):
        super().__init__(*host, **options)
        params = self.params
        self.waiting: list[deque[TileJob]] = [deque() for _ in range(params.loaders)]  # not done
        self.taken = [0] * params.loaders  # of those, how many the PE has taken
        self.commands: list[tuple[int, TileJob]] = []  # loader and tile, as they were taken
        self.asked = [0] * params.loaders  # lines since the last command was taken
        self.wanted: deque[Row] = deque()  # to ask for
        self.reading: deque[Row] = deque()  # asked for
        self.squashing = 0
        self._must_take: int | None = None  # loader that was squashed in the cycle before
        self.dut.squash.value = 0

    # One cycle.

    def step(self, cycle: int) -> bool:
        squashed, self._must_take = self._must_take, None
        if squashed is not None:
            self._require_open(cycle, squashed)
        moved = super().step(cycle)
        if squashed is not None:
            self.monitors[f"done{squashed}"].may_withdraw = False
        if self.squashing:
            self._drop()
        return moved

    def _asked(self, loader: int) -> None:
        self.asked[loader] += 1

    def _came(self, name: str, word: int) -> None:
        if name == "read_response":
            self._row(word)
        elif name.startswith("done"):
            loader = int(name.removeprefix("done"))
            if not self.squashing >> loader & 1:
                self.tile_done(loader, TileError(word))
        else:
            super()._came(name, word)

    def _went(self, name: str) -> None:
        if name == "read_request":
            self.reading.append(self.wanted.popleft())
        elif name.startswith("command"):
            loader = int(name.removeprefix("command"))
            self.commands.append((loader, self.waiting[loader][self.taken[loader]]))
            self.taken[loader] += 1
            self.asked[loader] = 0

    def tile_done(self, k: int, error: TileError) -> None:
        assert self.waiting[k], f"loader {k} announced a tile that nobody asked for"
        job = self.waiting[k].popleft()
        self.taken[k] -= 1
        job.result, job.done_at = error, self.now
        assert error == job.error, (
            f"loader {k}, config {job.config_word:#x}: tile ended {error.name},"
            f" expected {job.error.name}"
        )
        if error is not TileError.OK:
            self.finished.append(job)
            return
        self._result(k, job)

    def _result(self, k: int, job: TileJob) -> None:
        """The tile of a loader is done: ask for its rows."""
        rows = list(range(TILE_ROWS))
        if self.stall:
            self.rng.shuffle(rows)
        for row in rows:
            self.read_row(k, row, job)

    def read_row(self, k: int, row: int, job: TileJob | None) -> None:
        """Ask for a row of TOut ``k``; without a tile it must be empty."""
        self.drivers["read_request"].send([k | row << 1])
        self.wanted.append((k, row, job))

    def _row(self, word: int) -> None:
        k, row, job = self.reading.popleft()
        data, full = word & ((1 << self.params.line_bits) - 1), word >> self.params.line_bits
        if job is None:
            assert not full, f"loader {k}: row {row} is full although it was not written"
            return
        if job.squashed:
            return
        assert full, f"loader {k}: row {row} is not full although its tile is done"
        assert not job.rows or data == job.rows[row], (
            f"loader {k}, config {job.config_word:#x}, row {row}:\n"
            f"  got      {data:0128x}\n  expected {job.rows[row]:0128x}"
        )
        job.got_rows[row] = data
        if len(job.got_rows) == TILE_ROWS:
            self.finished.append(job)
            self._count(job, Squash.NONE)

    def _count(self, job: TileJob, squash: Squash) -> None:
        if self.coverage is not None and job.traits is not None:
            self.coverage.hit(**job.traits, stall=stall_name(self.stall), squash=squash)

    def progress(self) -> str:
        given = ", ".join(
            f"loader {k}: {len(jobs)} tiles not done, {self.taken[k]} of them taken"
            for k, jobs in enumerate(self.waiting)
        )
        rows = len(self.wanted) + len(self.reading)
        return f"{given}; {rows} rows to read; {len(self.memory.waiting)} lines due"

    # Operations of a program.

    def give(self, k: int, job: TileJob) -> None:
        """Command a tile to loader ``k`` with the configuration now in force."""
        self.waiting[k].append(job)
        self.drivers[f"command{k}"].send([pack_fields(self.ports["command0"].fields, job.fields)])

    async def room(self, k: int, ahead: int = 2) -> None:
        """Wait until loader ``k`` has fewer than so many tiles."""
        await self.until(lambda: len(self.waiting[k]) < ahead)

    async def finish(self) -> None:
        """Wait until every given tile is read."""
        await self.until(lambda: self.quiet)

    @property
    def commands_waiting(self) -> bool:
        return any(not self.drivers[f"command{k}"].idle for k in range(self.params.loaders))

    def idle(self, k: int) -> bool:
        """Whether loader ``k`` has no tile, nor rows to read."""
        rows = any(t == k for t, _, _ in (*self.wanted, *self.reading))
        return not self.waiting[k] and not rows

    @property
    def quiet(self) -> bool:
        return not (self.wanted or self.reading or any(self.waiting) or self.commands_waiting)

    async def prepare(self, job: TileJob, before: TileJob | None = None) -> None:
        """Table and configuration of a tile, where they differ from those of the one before."""
        if job.lut is not None and (before is None or job.lut != before.lut):
            await self.finish()
            await self.table(job.lut)
        if before is None or job.config_word != before.config_word:
            await self.until(lambda: not self.commands_waiting)
            await self.write(Register.CONFIG, job.config_word)

    async def run(
        self, jobs: Sequence[TileJob], *, ahead: int = 2, before: TileJob | None = None
    ) -> None:
        """All tiles, alternating loaders, ``ahead`` commands given at most per loader.

        ``before`` is the tile whose table and configuration are in place.
        """
        for number, job in enumerate(jobs):
            k = number % self.params.loaders
            await self.prepare(job, before)
            before = job
            await self.room(k, ahead)
            self.give(k, job)
        await self.finish()

    # Squash.

    def state(self, k: int) -> Squash:
        """State of the oldest tile of loader ``k`` as a core sees it."""
        if any(t == k for t, _, _ in (*self.wanted, *self.reading)):
            return Squash.ROWS
        if self.monitors[f"done{k}"].waiting:
            return Squash.RESULT
        if not self.taken[k]:
            return Squash.NONE
        if not self.asked[k]:
            return Squash.COMMAND
        return Squash.FETCH if self.memory.outstanding(k) else Squash.DECOMPRESS

    async def squash(self, k: int) -> list[TileJob]:
        """Abort loader ``k`` in the next cycle; the tiles that are lost.

        The loader must be ready for a command in the cycle after.
        """
        before = len(self.lost)
        self._count_squash(k)
        self.squashing = 1 << k
        self.monitors[f"done{k}"].may_withdraw = True
        self.dut.squash.value = self.squashing
        await self.cycles(1)
        return self.lost[before:]

    def _count_squash(self, k: int) -> None:
        state = self.state(k)
        if state is Squash.ROWS:
            rows = (*self.reading, *self.wanted)
            self._count(next(j for t, _, j in rows if t == k and j is not None), state)
        elif state is not Squash.NONE:
            self._count(self.waiting[k][0], state)

    def _drop(self) -> None:
        """After the cycle of the squash: forget what it dropped."""
        k = self.squashing.bit_length() - 1
        self.dut.squash.value = self.squashing = 0
        self._must_take = k
        self.forget(k)

    def forget(self, k: int) -> None:
        """Everything of loader ``k`` has been squashed."""
        rows = (*self.wanted, *self.reading)
        # A tile that a squash before this one has dropped may still have a row on its way.
        unread = {
            id(job): job for t, _, job in rows if t == k and job is not None and not job.squashed
        }
        lost = [self.waiting[k].popleft() for _ in range(self.taken[k])]
        self.taken[k] = 0
        for job in (*unread.values(), *lost):
            job.squashed = True
            self.lost.append(job)
        # The core no longer asks for rows that are gone, except for one already on offer.
        requests = self.drivers["read_request"]
        left = [
            (word, entry)
            for n, (word, entry) in enumerate(zip(requests.pending, self.wanted, strict=True))
            if entry[0] != k or (n == 0 and requests.offering)
        ]
        requests.keep_pending([word for word, _ in left])
        self.wanted = deque(entry for _, entry in left)

    def _require_open(self, cycle: int, k: int) -> None:
        """Require that the loader takes a command in the cycle after a squash."""
        # Loader 1 lets loader 0 go first when both are given a command in one cycle.
        first = self.drivers["command0"]
        passed = k == 1 and first.offering and read(first.ready, cycle)
        assert passed or read(self.drivers[f"command{k}"].ready, cycle), (
            f"loader {k} takes no command in the cycle after a squash"
        )
