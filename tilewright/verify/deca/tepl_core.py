"""A core that speculates: TEPLs in program order, wrong paths, flushes, tile registers."""

from dataclasses import dataclass, field
from enum import StrEnum
from functools import cached_property
from typing import Any

from tilewright.golden.params.block import pack_fields, unpack_fields
from tilewright.golden.params.deca import (
    TEPL_ID_BITS,
    TILE_ROWS,
    DecaTeplParams,
    TileError,
)
from tilewright.verify.coverage import Coverage
from tilewright.verify.deca.core import Host
from tilewright.verify.deca.workload import TileJob, stall_name

ASLEEP = 0.5
MOST_IN_FLIGHT = (1 << TEPL_ID_BITS) // 2 - 1  # so that of two ids the older one is known


class Dropped(StrEnum):
    """State of a TEPL when it was flushed, as the core sees it."""

    ASLEEP = "no metadata"
    WORKING = "waits or works"
    ROWS = "rows are written"
    COMPLETED = "completed"


def flush_coverage(stalls: tuple[float, ...]) -> Coverage:
    """Return the coverage of flushes, with nothing hit yet."""
    return Coverage(
        {
            "dropped": [dropped.value for dropped in Dropped],
            "stall": [stall_name(stall) for stall in stalls],
        }
    )


@dataclass(eq=False)
class Tepl:
    """One TEPL from its dispatch to its commit or its flush."""

    number: int  # in program order
    register: int
    job: TileJob
    awake: bool  # the unit has the metadata
    awake_at: int = 0  # cycle in which it got them
    loader: int | None = None  # that asked for the first line of its data
    rows: list[int] = field(default_factory=list)  # written, in order
    completed: bool = False

    @cached_property
    def lines(self) -> frozenset[int]:
        return frozenset(self.job.lines())

    @property
    def id(self) -> int:
        return self.number % (1 << TEPL_ID_BITS)

    @property
    def state(self) -> Dropped:
        if self.completed:
            return Dropped.COMPLETED
        if self.rows:
            return Dropped.ROWS
        return Dropped.WORKING if self.awake else Dropped.ASLEEP


class TeplCore(Host):
    """Dispatches the tiles of a program, and others while it is on a wrong path.

    With probability ``mispredict`` a TEPL is dispatched after a mispredicted branch: it and all
    that follow are for meaningless tiles, until some cycles later a flush names it and the program
    resumes there. Besides, in each cycle with probability ``interrupt`` a flush names any TEPL
    that is not committed, or the next one. A TEPL is dispatched without its metadata with
    probability ``ASLEEP``. A flushed TEPL must leave no trace; a committed one has written golden's
    rows, in order, into its register, or ended with its error and not written the last one.
    Without a flush, the lines show in which order a loader got its TEPLs: the oldest ready one
    first.
    """

    params: DecaTeplParams

    def __init__(
        self, *host: Any, mispredict: float = 0.1, interrupt: float = 0.002, **options: Any
    ):
        super().__init__(*host, **options)
        self.mispredict, self.interrupt = mispredict, interrupt
        self.drivers["flush"].stall = 0.0
        self.program: list[TileJob] = []  # empty: the core does nothing of its own
        self.strangers: list[TileJob] = []  # tiles of wrong paths
        self.flying: list[Tepl] = []  # dispatched, not committed, in program order
        self.committed: list[Tepl] = []  # of the program
        self.first = 0  # number of the program's first TEPL
        self.offered: Tepl | None = None  # for dispatch
        self.waking: list[Tepl] = []  # given to the wakeup port
        self.wrong_from: int | None = None  # number of the first TEPL of the wrong path
        self.noticed_at = 0  # cycle in which it is flushed
        self.flushing: int | None = None  # number given to the flush port
        self.flushes = 0

    @property
    def next(self) -> int:
        """Number of the next TEPL to dispatch."""
        return self.flying[-1].number + 1 if self.flying else self.first + len(self.committed)

    async def run(self, program: list[TileJob], strangers: list[TileJob]) -> None:
        """All tiles of the program, in any order that a core may choose."""
        self.first, self.committed = self.next, []
        self.program, self.strangers = program, strangers
        await self.until(lambda: self.done)
        self.program = []

    @property
    def done(self) -> bool:
        busy = self.flying or self.offered or self.flushing is not None
        return len(self.committed) == len(self.program) and not busy

    # One cycle.

    def step(self, cycle: int) -> bool:
        if self.program:
            self._wake()
            self._flush()
            self._dispatch()
        moved = super().step(cycle)
        self._commit()
        return moved

    def _dispatch(self) -> None:
        if self.offered or self.flushing is not None or len(self.flying) >= MOST_IN_FLIGHT:
            return
        number = self.next
        if self.wrong_from is None and self.rng.random() < self.mispredict:
            self.wrong_from, self.noticed_at = number, self.now + self.rng.randint(1, 300)
        if self.wrong_from is not None:
            job = self.rng.choice(self.strangers)
        elif number - self.first < len(self.program):
            job = self.program[number - self.first]
        else:
            return
        self.offer(number, job.again(), awake=self.rng.random() >= ASLEEP)

    def offer(self, number: int, job: TileJob, awake: bool = True) -> None:
        """Dispatch a tile; the core renames its register."""
        register = number % (1 << self.params.tile_register_bits)
        self.offered = Tepl(number, register, job, awake)
        nothing = dict.fromkeys(job.fields, 0)
        self._send("dispatch", self.offered, job.fields if awake else nothing)

    def _wake(self) -> None:
        asleep = [t for t in self.flying if not t.awake and t not in self.waking]
        if asleep and self.rng.random() < 0.1:
            tepl = self.rng.choice(asleep)
            self.waking.append(tepl)
            self._send("wakeup", tepl, tepl.job.fields)

    def _flush(self) -> None:
        if self.flushing is not None:
            return
        if self.wrong_from is not None and self.now >= self.noticed_at:
            self.flushing = self.wrong_from
        elif self.rng.random() < self.interrupt:
            oldest = self.flying[0].number if self.flying else self.next
            newest = self.next if self.wrong_from is None else self.wrong_from
            self.flushing = self.rng.randint(oldest, newest)
        else:
            return
        self.drivers["flush"].send([self.flushing % (1 << TEPL_ID_BITS)])

    def _send(self, port: str, tepl: Tepl, fields: dict[str, int]) -> None:
        about = {"id": tepl.id, "register": tepl.register, "ready": int(tepl.awake)}
        self.drivers[port].send([pack_fields(self.ports[port].fields, about | fields)])

    def _went(self, name: str) -> None:
        if name == "dispatch":
            assert self.offered is not None
            self.offered.awake_at = self.now
            self.flying.append(self.offered)
            self.offered = None
        elif name == "wakeup":
            tepl = self.waking.pop(0)
            tepl.awake, tepl.awake_at = True, self.now
        elif name == "flush":
            self._flushed()

    def _flushed(self) -> None:
        """Drop it and all younger ones, also the one on offer."""
        assert self.flushing is not None
        dropped = [t for t in self.flying if t.number >= self.flushing]
        for tepl in dropped:
            if self.coverage is not None:
                self.coverage.hit(dropped=tepl.state, stall=stall_name(self.stall))
            self.lost.append(tepl.job)
        self.flying = self.flying[: len(self.flying) - len(dropped)]
        self.drivers["dispatch"].withdraw()
        self.drivers["wakeup"].withdraw()
        self.offered, waking, self.waking = None, self.waking, []
        for tepl in waking:
            if tepl not in dropped:
                self.waking.append(tepl)
                self._send("wakeup", tepl, tepl.job.fields)
        if self.wrong_from is not None and self.wrong_from >= self.flushing:
            self.wrong_from = None
        self.flushing = None
        self.flushes += 1

    def _came(self, name: str, word: int) -> None:
        if name == "tile_write":
            self._wrote(**unpack_fields(self.ports[name].fields, word))
        elif name == "complete":
            self._completed(**unpack_fields(self.ports[name].fields, word))
        else:
            super()._came(name, word)

    def _asked(self, loader: int) -> None:
        """A loader, which works in the order of issue, begins a TEPL with the first line of data.

        Without flushes no younger one that was not ready earlier may have begun before it. A line
        that several TEPLs need, because a length is wrong, proves nothing.
        """
        if self.mispredict or self.interrupt:
            return
        line = self.memory.requests[-1][1]
        found = [t for t in self.flying if line in t.lines]
        if len(found) != 1 or line != found[0].job.fields["data_base"] // self.params.line_bytes:
            return
        (tepl,) = found
        tepl.loader = loader
        for other in self.flying:
            if other.number > tepl.number and other.loader == loader:
                assert other.awake_at <= tepl.awake_at, (
                    f"TEPL {other.number} was issued before TEPL {tepl.number}, which is older and"
                    " was ready before it"
                )

    def _wrote(self, register: int, row: int, data: int) -> Tepl:
        found = [t for t in self.flying if t.register == register and not t.completed]
        assert len(found) == 1, f"row {row} for register {register}, which nobody loads"
        (tepl,) = found
        about = f"TEPL {tepl.number}, config {tepl.job.config_word:#x}"
        assert row == len(tepl.rows), f"{about}: row {row} instead of {len(tepl.rows)}"
        expected = tepl.job.rows[row]
        assert data == expected, (
            f"{about}, row {row}:\n  got      {data:0128x}\n  expected {expected:0128x}"
        )
        tepl.rows.append(data)
        return tepl

    def _completed(self, id: int, error: int) -> Tepl:
        found = [t for t in self.flying if t.id == id and not t.completed]
        assert len(found) == 1, f"TEPL with id {id} completed, which is not in flight"
        (tepl,) = found
        # A tile that fails may have written some of its rows, but not the last one.
        whole = len(tepl.rows) == TILE_ROWS
        assert (TileError(error), whole) == (tepl.job.error, tepl.job.error is TileError.OK), (
            f"TEPL {tepl.number}: ended {TileError(error).name} with {len(tepl.rows)} rows,"
            f" expected {tepl.job.error.name}"
        )
        tepl.completed = True
        tepl.job.result, tepl.job.done_at = TileError(error), self.now
        return tepl

    def _commit(self) -> None:
        """Commit completed TEPLs in order, up to what will be flushed."""
        limits = [n for n in (self.wrong_from, self.flushing) if n is not None]
        while self.flying and self.flying[0].completed:
            if limits and self.flying[0].number >= min(limits):
                return
            tepl = self.flying.pop(0)
            self.committed.append(tepl)
            self.finished.append(tepl.job)

    def progress(self) -> str:
        states = [f"{t.number} {t.state}" for t in self.flying]
        return f"{len(self.committed)} committed, in flight: {states}; {super().progress()}"
