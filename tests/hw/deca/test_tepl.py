# amaranth: UnusedElaboratable=no
"""The TEPL unit between a core that mispredicts and a processing element that takes its time."""

import hashlib
import random
from dataclasses import dataclass, field

import pytest

from tests.support.clocked import prepared, run
from tilewright.golden.params.deca import (
    TEPL_ID_BITS,
    TILE_REGISTER_BITS,
    TILE_ROWS,
    DecaParams,
    TileError,
)
from tilewright.hw.deca.pe import DecaPE
from tilewright.hw.deca.tepl import TeplUnit

PARAMS = DecaParams()
SINGLE = DecaParams(port_commands=1)  # so that every second command goes to the other port
ALL_ROWS = (1 << 2 * TILE_ROWS) - 1
IDS = 1 << TEPL_ID_BITS
OUTPUTS = ("command0", "command1", "read_request", "tile_write", "complete")


def metadata(tile: int) -> dict[str, int]:
    """Fields of a command that all depend on the number ``tile``."""
    return {f.name: tile * (k + 1) % (1 << f.bits) for k, f in enumerate(PARAMS.command_fields)}


def row_of(tile: int, row: int) -> int:
    seed = tile.to_bytes(8, "little") + bytes([row])
    return int.from_bytes(hashlib.blake2b(seed).digest(), "little")


def rows_before_error(tile: int) -> int:
    """Rows that a tile with an error has when it is found."""
    return (tile >> 4) % TILE_ROWS


def outcome(tile: int) -> TileError:
    return TileError(tile % 16) if tile % 16 < len(TileError) else TileError.OK


@dataclass(eq=False)
class Tepl:
    number: int  # in program order
    tile: int  # stands for the metadata
    woken: bool  # the unit has the metadata
    issued: bool = False
    rows: int = 0  # written
    completed: bool = False

    @property
    def id(self) -> int:
        return self.number % IDS

    @property
    def register(self) -> int:
        return self.number % (1 << TILE_REGISTER_BITS)


@dataclass
class Core:
    """Dispatches ``count`` TEPLs, wakes, flushes and replays them; commits in order."""

    rng: random.Random
    count: int
    flying: list[Tepl] = field(default_factory=list)  # not committed, in program order
    next: int = 0  # number of the next to dispatch
    dispatch: Tepl | None = None  # on offer
    wakeup: Tepl | None = None
    flush: int | None = None  # number of the TEPL
    flushes: int = 0

    def offer(self, dispatches: bool, wakes: bool, flushes: bool) -> None:
        if self.dispatch is None and dispatches and self.next < self.count:
            tile = self.rng.getrandbits(40)
            self.dispatch = Tepl(self.next, tile, woken=self.rng.random() < 0.5)
        asleep = [t for t in self.flying if not t.woken]
        self.wakeup = self.rng.choice(asleep) if wakes and asleep else None
        if self.flush is None and flushes:
            # Any that is not committed, or the first that does not exist yet.
            oldest = self.flying[0].number if self.flying else self.next
            self.flush = self.rng.randint(oldest, self.next)

    def dispatched(self) -> None:
        self.flying.append(self.dispatch)
        self.dispatch, self.next = None, self.next + 1

    def wrote(self, register: int, row: int, content: int) -> None:
        (tepl,) = [t for t in self.flying if t.register == register and not t.completed]
        assert row == tepl.rows, f"TEPL {tepl.number}: row {row} instead of {tepl.rows}"
        assert content == row_of(tepl.tile, row), f"TEPL {tepl.number}: wrong row {row}"
        tepl.rows += 1

    def completed(self, tepl_id: int, error: int) -> None:
        (tepl,) = [t for t in self.flying if t.id == tepl_id]
        assert not tepl.completed, f"TEPL {tepl.number} completed twice"
        assert error == outcome(tepl.tile)
        assert tepl.rows <= rows_before_error(tepl.tile) if error else tepl.rows == TILE_ROWS
        tepl.completed = True

    def flushed(self) -> list[Tepl]:
        dropped = [t for t in self.flying if t.number >= self.flush]
        self.flying = self.flying[: len(self.flying) - len(dropped)]
        # The word on offer was of the wrong path too.
        self.next, self.dispatch, self.flush = self.flush, None, None
        self.flushes += 1
        return dropped

    def commit(self) -> None:
        while self.flying and self.flying[0].completed:
            self.flying.pop(0)


@dataclass
class Loader:
    """One loader of the processing element with its TOut: a tile is fetched, another one leaves."""

    fetched: int | None = None
    tile: int | None = None  # whose rows come
    row: int = 0  # its next one
    result: TileError | None = None  # to be taken
    full: set[int] = field(default_factory=set)  # rows not read yet
    fresh: set[int] = field(default_factory=set)  # rows of the tile
    given_up: set[int] = field(default_factory=set)  # rows of a tile that failed, until the next
    content: dict[int, int] = field(default_factory=dict)

    def work(self) -> None:
        """Begin a tile, write a row or end the tile."""
        if self.tile is None:
            if self.fetched is not None and self.result is None:
                self.tile, self.fetched, self.row = self.fetched, None, 0
                self.fresh, self.given_up = set(), set()
        elif outcome(self.tile) and self.row == rows_before_error(self.tile):
            self.given_up, self.full = self.fresh & self.full, self.full - self.fresh
            self.result, self.tile = outcome(self.tile), None
        elif self.row not in self.full:
            self.full.add(self.row)
            self.fresh.add(self.row)
            self.content[self.row] = row_of(self.tile, self.row)
            self.row += 1
            if self.row == TILE_ROWS:
                self.result, self.tile = TileError.OK, None

    def read(self, row: int) -> int:
        """The row, also where its tile has failed since it was asked for."""
        assert row in self.full or row in self.given_up, f"row {row} is not there"
        self.full.discard(row)
        return self.content[row]

    def squash(self) -> None:
        self.fetched = self.tile = self.result = None
        self.full = set()


class Bench:
    """Both sides of the unit, cycle by cycle."""

    def __init__(self, params: DecaParams, *, count: int, flush: float, seed: int):
        self.params, self.flush_rate = params, flush
        self.dut = prepared(TeplUnit, params).dut
        self.rng = random.Random(seed)
        self.core = Core(self.rng, count)
        self.loaders = [Loader(), Loader()]
        self.answer: int | None = None  # of the read port, on offer
        self.on_port: list[list[Tepl]] = [[], []]  # commands that are with each loader
        self.dropped: list[Tepl] = []  # flushed
        self.offered: dict[str, int] = {}  # words that wait
        self.squashes: set[int] = set()  # due in this cycle
        self.most_on_port = 0

    def drive(self, ctx, pace: list[float]) -> dict[str, bool]:
        """Set all inputs; returns which outputs are taken."""
        dut, core = self.dut, self.core
        chance = [self.rng.random() < p for p in pace]
        core.offer(chance[0], chance[1], self.rng.random() < self.flush_rate)
        ctx.set(dut.dispatch.valid, core.dispatch is not None)
        if core.dispatch is not None:
            ctx.set(dut.dispatch.p.id, core.dispatch.id)
            ctx.set(dut.dispatch.p.register, core.dispatch.register)
            ctx.set(dut.dispatch.p.ready, core.dispatch.woken)
            tile = core.dispatch.tile if core.dispatch.woken else 0
            for name, value in metadata(tile).items():
                ctx.set(dut.dispatch.p[name], value)
        ctx.set(dut.wakeup.valid, core.wakeup is not None)
        if core.wakeup is not None:
            ctx.set(dut.wakeup.p.id, core.wakeup.id)
            for name, value in metadata(core.wakeup.tile).items():
                ctx.set(dut.wakeup.p[name], value)
        ctx.set(dut.flush.valid, core.flush is not None)
        if core.flush is not None:
            ctx.set(dut.flush.p.id, core.flush % IDS)

        rows = 0
        for k, loader in enumerate(self.loaders):
            done = getattr(dut, f"done{k}")
            ctx.set(done.valid, loader.result is not None)
            ctx.set(done.p.error, loader.result or 0)
            rows |= sum(1 << row for row in loader.full) << TILE_ROWS * k
        ctx.set(dut.rows, rows)
        ctx.set(
            dut.open, sum((loader.fetched is None) << k for k, loader in enumerate(self.loaders))
        )
        ctx.set(dut.read_response.valid, self.answer is not None)
        ctx.set(dut.read_response.p.data, self.answer or 0)
        ctx.set(dut.tile_write.ready, chance[4])
        taken = {
            f"command{k}": chance[2] and loader.fetched is None
            for k, loader in enumerate(self.loaders)
        }
        # As in the processing element: a row is read while the one before it leaves.
        empty = self.answer is None or ctx.get(dut.read_response.ready)
        taken |= {"read_request": empty and chance[3], "tile_write": chance[4]}
        taken["complete"] = chance[5]
        for name, ready in taken.items():
            ctx.set(getattr(dut, name).ready, ready)
        return taken

    async def cycle(self, ctx, pace: list[float]) -> None:
        dut, core, work = self.dut, self.core, pace[6]
        taken = self.drive(ctx, pace)
        probes = [dut.squash, dut.dispatch.ready, dut.wakeup.ready, dut.flush.ready]
        probes += [dut.done0.ready, dut.done1.ready, dut.read_response.ready]
        ports = [getattr(dut, name) for name in OUTPUTS]
        probes += [port.valid for port in ports] + [port.payload for port in ports]
        _, _, *sample = await ctx.tick().sample(*probes)
        squash, dispatched, woke, flushed, *done_taken, answered = sample[:7]
        valid = dict(zip(OUTPUTS, sample[7:12], strict=True))
        words = dict(zip(OUTPUTS, sample[12:], strict=True))
        self.asked = set(self.offered)  # on offer since before this cycle
        self.require_patience(valid, words, taken)
        gives = {name: words[name] for name in OUTPUTS if valid[name] and taken[name]}

        self.watch_ports(valid, words)
        for k in self.squashes:
            assert squash >> k & 1, f"loader {k} has no TEPL left and is not squashed"
        self.squashes = set()
        for k, loader in enumerate(self.loaders):
            if done_taken[k] and loader.result is not None:
                if loader.result and self.on_port[k][0] in self.dropped:
                    self.on_port[k].pop(0)
                loader.result = None
            if f"command{k}" in gives:
                loader.fetched = self.on_port[k][-1].tile
        if answered:
            self.answer = None
        if "read_request" in gives:
            request = gives["read_request"]
            self.answer = self.loaders[request.tout].read(request.row)
        for k, loader in enumerate(self.loaders):
            if squash >> k & 1:
                assert all(tepl in self.dropped for tepl in self.on_port[k])
                self.on_port[k] = []
                loader.squash()
            elif self.rng.random() < work:
                loader.work()

        # A flush comes after everything else of its cycle.
        if "tile_write" in gives:
            word = gives["tile_write"]
            core.wrote(word.register, word.row, word.data)
        if "complete" in gives:
            core.completed(gives["complete"].id, gives["complete"].error)
        if core.dispatch is not None and dispatched:
            assert core.flush is None
            core.dispatched()
        assert woke
        if core.wakeup is not None:
            core.wakeup.woken = True
        if core.flush is not None and flushed:
            self.dropped += core.flushed()
            self.squashes = {
                k
                for k, tepls in enumerate(self.on_port)
                if tepls and all(tepl in self.dropped for tepl in tepls)
            }
            if "read_request" in self.offered:  # the squash waits for it
                self.squashes.discard(words["read_request"].tout)
            assert self.offered.keys() <= {"read_request"}
        core.commit()

    def require_patience(self, valid, words, taken) -> None:
        """A word that was offered and not taken is still offered."""
        for name in OUTPUTS:
            word = words[name].as_bits()
            assert name not in self.offered or (valid[name], word) == (1, self.offered[name]), name
            self.offered.pop(name, None)
            if valid[name] and not taken[name]:
                self.offered[name] = word

    def watch_ports(self, valid, words) -> None:
        """A command is with its loader from its offer to that of its last row, or of its error."""
        for k, tepls in enumerate(self.on_port):
            request = words["read_request"]
            new = "read_request" not in self.asked and valid["read_request"]
            if new and request.tout == k and request.row == TILE_ROWS - 1:
                tepls.pop(0)
            fails = valid["complete"] and words["complete"].error
            kept = [tepl for tepl in tepls[:1] if tepl not in self.dropped]
            if fails and kept and kept[0].id == words["complete"].id:
                tepls.pop(0)
            command = words[f"command{k}"]
            if valid[f"command{k}"] and f"command{k}" not in self.asked:
                assert not any(tepl in self.dropped for tepl in tepls)
                (tepl,) = [
                    t
                    for t in self.core.flying
                    if t.woken
                    and not t.issued
                    and all(command[name] == value for name, value in metadata(t.tile).items())
                ]
                tepl.issued = True
                tepls.append(tepl)
                self.most_on_port = max(self.most_on_port, len(tepls))
                assert len(tepls) <= self.params.port_commands

    async def play(self, ctx) -> None:
        core = self.core
        for cycle in range(400 * core.count):
            if cycle % 80 == 0:
                pace = self.rng.choices((0.2, 0.7, 1.0), k=7)
            await self.cycle(ctx, pace)
            idle = not core.flying and core.flush is None and not any(self.on_port)
            if core.next == core.count and idle:
                return
        raise TimeoutError(f"{core.next} of {core.count} dispatched, in flight: {core.flying}")


def play(params: DecaParams, *, count: int, flush: float = 0.0, seed: int = 1) -> Core:
    bench = Bench(params, count=count, flush=flush, seed=seed)
    run(prepared(TeplUnit, params), bench.play)
    # A loader of the bench fetches one tile, writes another one and has the rows of a third.
    assert bench.most_on_port == min(params.port_commands, 3, params.tepl_entries)
    return bench.core


ENTRIES = [(2, 3), pytest.param(5, 1, marks=pytest.mark.full), (8, 3)]  # with commands on the port


@pytest.mark.parametrize(("entries", "commands"), ENTRIES[:2])
def test_every_tepl_completes_once_with_its_rows(entries, commands):
    play(DecaParams(tepl_entries=entries, port_commands=commands), count=20)


@pytest.mark.parametrize(("entries", "commands"), ENTRIES)
def test_flush_at_any_time(entries, commands):
    params = DecaParams(tepl_entries=entries, port_commands=commands)
    assert play(params, count=20, flush=0.02, seed=2).flushes > 8


@pytest.mark.full
@pytest.mark.parametrize("seed", range(6))
def test_flush_at_any_time_at_length(seed):
    """Long enough for the ids to go round."""
    params = DecaParams(
        tepl_entries=(2, 3, 5, 7, 8, 8)[seed], port_commands=(3, 2, 4, 1, 3, 3)[seed]
    )
    flush = (0.1, 0.05, 0.02, 0.01, 0.01, 0.02)[seed]
    assert play(params, count=100, flush=flush, seed=seed).flushes > 10


class Hand:
    """The unit driven by hand; a sink that is not told otherwise takes everything."""

    def __init__(self, ctx, dut: TeplUnit):
        self.ctx, self.dut = ctx, dut
        for name in OUTPUTS:
            ctx.set(getattr(dut, name).ready, 1)
        ctx.set(dut.open, 0b11)
        self.answer: int | None = None  # to a read, on offer

    async def watch(self, cycles: int, rows=lambda cycle: ALL_ROWS):
        """Answer reads at once for so many cycles; (cycle, ...) of writes, outcomes, squashes."""
        ctx, dut = self.ctx, self.dut
        writes, completions, squashes = [], [], []
        for cycle in range(cycles):
            ctx.set(dut.rows, rows(cycle))
            ctx.set(dut.read_response.valid, self.answer is not None)
            ctx.set(dut.read_response.p.data, self.answer or 0)
            _, _, asks, request, valid, row, completes, word, squash = await ctx.tick().sample(
                dut.read_request.valid,
                dut.read_request.payload,
                dut.tile_write.valid,
                dut.tile_write.payload,
                dut.complete.valid,
                dut.complete.payload,
                dut.squash,
            )
            self.answer = 100 * request.tout + request.row if asks else None
            writes += [(cycle, row.register, row.row, row.data)] if valid else []
            completions += [(cycle, word.id, word.error)] if completes else []
            squashes += [(cycle, squash)] if squash else []
        return writes, completions, squashes

    async def send(self, port, **fields: int) -> None:
        """Offer a word until it is taken."""
        for name, value in fields.items():
            self.ctx.set(port.p[name], value)
        self.ctx.set(port.valid, 1)
        await self.ctx.tick().until(port.ready)
        self.ctx.set(port.valid, 0)

    async def dispatch(self, number: int, ready: int = 1) -> None:
        """A TEPL for tile register ``number`` whose data lies at address ``number``."""
        await self.send(
            self.dut.dispatch, id=number, register=number, ready=ready, data_base=number
        )

    async def fail(self, number: int) -> None:
        """A TEPL from its dispatch to its completion, on an idle unit."""
        await self.dispatch(number)
        await self.next_command()
        await self.send(self.dut.done0, error=TileError.BUS)
        await self.ctx.tick().until(self.dut.complete.valid)

    def offers(self) -> list[int | None]:
        """The tiles on offer at the two command ports."""
        return [
            self.ctx.get(port.payload.data_base) if self.ctx.get(port.valid) else None
            for port in (self.dut.command0, self.dut.command1)
        ]

    async def next_command(self) -> tuple[int, int]:
        """Port and tile of the next command that is taken."""
        for _ in range(20):
            _, _, v0, v1, *tiles = await self.ctx.tick().sample(
                self.dut.command0.valid,
                self.dut.command1.valid,
                self.dut.command0.payload.data_base,
                self.dut.command1.payload.data_base,
            )
            if v0 or v1:
                assert not (v0 and v1)
                return (0, tiles[0]) if v0 else (1, tiles[1])
        raise TimeoutError("no command")


def by_hand(steps, params: DecaParams = PARAMS) -> None:
    unit = prepared(TeplUnit, params)

    async def bench(ctx):
        await steps(ctx, Hand(ctx, unit.dut), unit.dut)

    run(unit, bench)


def test_command_is_offered_three_cycles_after_dispatch():
    async def steps(ctx, hand, dut):
        await hand.dispatch(1)
        await hand.dispatch(2)
        await ctx.tick()
        assert hand.offers() == [1, None]
        await ctx.tick()
        assert hand.offers() == [None, None]
        await ctx.tick()
        assert hand.offers() == [None, 2]
        await ctx.tick()
        assert hand.offers() == [None, None]

    by_hand(steps, SINGLE)


@pytest.mark.parametrize("before", [0, 5, 6, 7])
def test_oldest_ready_goes_first_and_two_at_a_time(before):
    """``before`` TEPLs went through already, so that the entries lie around the ring's end."""

    async def steps(ctx, hand, dut):
        for number in range(60, 60 + before):
            await hand.fail(number % IDS)
        for number, ready in enumerate((0, 0, 1, 1, 1), start=10):
            await hand.dispatch(number, ready)
            if number in (12, 13):
                assert await hand.next_command() == (number - 12, number)
        await ctx.tick().repeat(5)
        assert hand.offers() == [None, None]  # both ports are taken
        await hand.send(dut.wakeup, id=11, data_base=101)
        await hand.send(dut.wakeup, id=10, data_base=100)
        await hand.send(dut.done1, error=TileError.BUS)
        assert await hand.next_command() == (1, 100)
        await hand.send(dut.done0, error=TileError.FORMAT)
        assert await hand.next_command() == (0, 101)
        await hand.send(dut.done1, error=TileError.BUS)
        assert await hand.next_command() == (1, 14)

    by_hand(steps, SINGLE)


def test_wakeup_of_a_tepl_that_does_not_wait_is_ignored():
    async def steps(ctx, hand, dut):
        await hand.dispatch(1)
        assert await hand.next_command() == (0, 1)
        await hand.send(dut.wakeup, id=1, data_base=99)
        await hand.send(dut.wakeup, id=2, data_base=99)
        for _ in range(6):
            assert hand.offers() == [None, None]
            await ctx.tick()

    by_hand(steps)


@pytest.mark.parametrize("entries", [2, 8])
def test_capacity(entries):
    async def steps(ctx, hand, dut):
        for number in range(entries):
            assert ctx.get(dut.dispatch.ready)
            await hand.dispatch(number, ready=0)
        assert not ctx.get(dut.dispatch.ready)
        await hand.send(dut.flush, id=entries - 1)
        assert ctx.get(dut.dispatch.ready)
        await hand.dispatch(entries - 1, ready=0)
        assert not ctx.get(dut.dispatch.ready)

    by_hand(steps, DecaParams(tepl_entries=entries))


@pytest.mark.parametrize("params", [SINGLE, PARAMS], ids=["two ports", "one port"])
def test_rows_of_tiles_leave_one_a_cycle(params):
    """So the ports sustain a tile every 16 cycles, the most that the matrix unit takes."""

    async def steps(ctx, hand, dut):
        await hand.dispatch(1)
        await hand.dispatch(2)
        ports = [(await hand.next_command())[0] for _ in range(2)]
        for done in (dut.done0, dut.done1):
            ctx.set(done.valid, 1)
        writes, completions, _ = await hand.watch(60)
        start = writes[0][0]
        assert writes == [
            (start + 16 * k + row, k + 1, row, 100 * ports[k] + row)
            for k in range(2)
            for row in range(16)
        ]
        assert completions == [(start + 15 + 2, 1, 0), (start + 31 + 2, 2, 0)]

    by_hand(steps, params)


def test_a_row_leaves_three_cycles_after_it_is_full():
    async def steps(ctx, hand, dut):
        await hand.dispatch(1)
        await hand.next_command()
        # Row k is full from cycle 5 k on; the result comes with the last one.
        full = [sum(1 << row for row in range(cycle // 5 + 1)) & 0xFFFF for cycle in range(100)]
        ctx.set(dut.done0.valid, 0)
        writes, completions, _ = await hand.watch(75, full.__getitem__)
        assert [(cycle, row) for cycle, _, row, _ in writes] == [
            (5 * row + 2, row) for row in range(15)
        ]
        ctx.set(dut.done0.valid, 1)
        writes, completions, _ = await hand.watch(10, lambda _: 0x8000)
        assert [(cycle, row) for cycle, _, row, _ in writes] == [(2, 15)]
        assert completions == [(4, 1, 0)]

    by_hand(steps)


def test_commands_in_flight_are_bounded():
    """``port_commands`` with each loader, however often it says that it takes one."""

    async def steps(ctx, hand, dut):
        for number in range(PARAMS.tepl_entries):
            await hand.dispatch(number)
        commands = []
        for _ in range(40):
            offers = hand.offers()
            commands += [k for k in range(2) if offers[k] is not None]
            await ctx.tick()
        assert commands[-3:] == [1, 1, 1] and len(commands) <= 6

    by_hand(steps)


def test_a_failed_tile_between_good_ones():
    """Its first rows may be written, none of them after its outcome; the next one is whole."""

    async def steps(ctx, hand, dut):
        for number in (1, 2, 3):
            await hand.dispatch(number)
        await ctx.tick().repeat(6)
        ctx.set(dut.done0.valid, 1)
        first, outcomes, _ = await hand.watch(12)
        ctx.set(dut.done0.valid, 0)
        rest, more, _ = await hand.watch(16, lambda cycle: 0xFFFF if cycle < 10 else 0)
        assert [row for _, register, row, _ in first + rest if register == 1] == [*range(16)]
        assert [end[1:] for end in outcomes + more] == [(1, 0)]
        started = [row for _, register, row, _ in first + rest if register == 2]
        assert started == [*range(len(started))] and 0 < len(started) < 16
        ctx.set(dut.done0.p.error, TileError.BUS)
        ctx.set(dut.done0.valid, 1)
        writes, outcomes, squashes = await hand.watch(2, lambda _: 0)
        ctx.set(dut.done0.p.error, TileError.OK)
        writes, outcomes, squashes = await hand.watch(30)
        assert not squashes
        assert [row for _, register, row, _ in writes] == [*range(16)]
        assert {register for _, register, _, _ in writes} == {3}
        assert [end[1:] for end in outcomes][-1] == (3, 0)

    by_hand(steps)


def test_a_flushed_tile_before_one_that_is_kept_runs_through():
    async def steps(ctx, hand, dut):
        await hand.dispatch(1, ready=0)
        await hand.dispatch(2)
        assert await hand.next_command() == (0, 2)
        await hand.send(dut.wakeup, id=1, data_base=1)
        assert await hand.next_command() == (0, 1)
        await hand.send(dut.flush, id=2)
        ctx.set(dut.done0.valid, 1)
        writes, completions, squashes = await hand.watch(45)
        assert not squashes and [end[1:] for end in completions] == [(1, 0)]
        assert [(register, row) for _, register, row, _ in writes] == [(1, r) for r in range(16)]
        assert writes[0][0] >= 16  # after the rows of the other one, which nobody sees

    by_hand(steps)


@pytest.mark.parametrize("name", ["command0", "tile_write", "complete"])
def test_flush_waits_for_a_word_on_offer_and_squashes_in_the_next_cycle(name):
    async def steps(ctx, hand, dut):
        port = getattr(dut, name)
        ctx.set(port.ready, 0)
        await hand.dispatch(5)
        await ctx.tick()
        if name != "command0":
            await hand.send(dut.done0, error=TileError.BUS if name == "complete" else TileError.OK)
            await ctx.tick()
        if name == "tile_write":
            ctx.set(dut.rows, 1)
            await ctx.tick()
            ctx.set(dut.read_response.valid, 1)
        await ctx.tick().until(port.valid)
        ctx.set(dut.flush.p.id, 5)
        ctx.set(dut.flush.valid, 1)
        for _ in range(5):
            assert ctx.get(port.valid) and not ctx.get(dut.flush.ready)
            await ctx.tick()
        ctx.set(port.ready, 1)
        assert ctx.get(dut.flush.ready) and not ctx.get(dut.squash)
        await ctx.tick()
        ctx.set(dut.flush.valid, 0)
        ctx.set(port.ready, 0)
        # A TEPL that has told its outcome has left its port.
        assert ctx.get(dut.squash) == (name != "complete")
        for _ in range(10):
            assert not any(ctx.get(getattr(dut, output).valid) for output in OUTPUTS)
            await ctx.tick()
            assert not ctx.get(dut.squash)
        ctx.set(dut.command0.ready, 1)
        await hand.dispatch(5)
        assert (await hand.next_command()) == (0, 5)

    by_hand(steps)


def test_flush_in_the_cycle_that_completes_the_oldest_tepl():
    async def steps(ctx, hand, dut):
        await hand.dispatch(7)
        await hand.next_command()
        await hand.send(dut.done0, error=TileError.BUS)
        await ctx.tick()
        assert ctx.get(dut.complete.valid)
        await hand.send(dut.flush, id=7)
        for number in range(7, 7 + PARAMS.tepl_entries):
            await hand.dispatch(number, ready=0)
        await hand.send(dut.wakeup, id=7, data_base=7)
        await hand.next_command()
        assert not ctx.get(dut.dispatch.ready)
        await hand.send(dut.done0, error=TileError.BUS)
        await ctx.tick().repeat(2)
        assert ctx.get(dut.dispatch.ready)  # 7 is the oldest, so its entry is free

    by_hand(steps)


def test_ports_fit_the_processing_element():
    tepl, pe = TeplUnit(PARAMS).signature.members, DecaPE(PARAMS).signature.members
    for name in ("command0", "command1", "done0", "done1", "read_request", "read_response"):
        assert tepl[name] == pe[name].flip()
    assert tepl["squash"] == pe["squash"].flip()
