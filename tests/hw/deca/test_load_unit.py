"""The load unit with its queues on a memory that answers when and in the order it likes."""

import hashlib
import random
from collections import Counter

import pytest
from amaranth import Module
from amaranth.lib import wiring
from amaranth.lib.wiring import connect

from tests.support.clocked import run
from tilewright.golden.params.deca import STRUCTURES, TILE_BYTES, DecaParams
from tilewright.hw.deca.load_unit import LoadUnit
from tilewright.hw.deca.request_cam import queue_lines
from tilewright.hw.stream.line_queue import LineQueue

PAPER = DecaParams()
TIGHT = DecaParams(cam_entries=2, sqq_lines=2)
ODD = DecaParams(cam_entries=5, sqq_lines=3, mask_queue_lines=2, scale_queue_lines=3)
LINE = PAPER.line_bytes


def memory_line(line: int) -> tuple[int, int]:
    """Content of a line, and whether reading it gives a bus error (one in eight does)."""
    content = hashlib.blake2b(line.to_bytes(8, "little"), digest_size=LINE).digest()
    return int.from_bytes(content, "little"), int(content[0] % 8 == 0)


def lines_of(base: int, length: int) -> list[int]:
    return sorted({byte // LINE for byte in range(base, base + length)})


def random_command(rng: random.Random, params: DecaParams) -> dict[str, tuple[int, int]]:
    lengths = (0, 1, 2, 63, 64, 65, 128, 320, 512, TILE_BYTES - 1, TILE_BYTES)
    command = {}
    for name in STRUCTURES:
        length = rng.choice(lengths) if rng.random() < 0.5 else rng.randrange(TILE_BYTES + 1)
        command[name] = rng.randrange((1 << params.address_bits) - length), length
    return command


class Fetch(wiring.Elaboratable):
    """A load unit and its three queues."""

    def __init__(self, params: DecaParams, loader: int):
        self.unit = LoadUnit(params, loader)
        self.queues = [
            LineQueue(lines, params.line_bits, sram=name == "data")
            for name, lines in queue_lines(params).items()
        ]

    def elaborate(self, platform):
        m = Module()
        m.submodules.unit = self.unit
        for name, queue in zip(STRUCTURES, self.queues, strict=True):
            m.submodules[f"{name}_queue"] = queue
            connect(m, getattr(self.unit, f"{name}_queue"), queue.port)
            m.d.comb += queue.flush.eq(self.unit.squash)
        return m


class Scoreboard:
    """Lines still to be requested and delivered, and those that the memory owes."""

    def __init__(self, params: DecaParams, loader: int):
        self.params, self.loader = params, loader
        self.requests: Counter[int] = Counter()  # lines of commands taken, not yet requested
        self.stale: Counter[int] = Counter()  # of commands squashed
        self.stale_left = 0  # requests of them that were already on their way out
        self.due: list[list[int]] = [[] for _ in STRUCTURES]  # lines to deliver
        self.owed: dict[int, int] = {}  # tag -> line
        self.delivered = self.squashes = 0

    def command(self, command: dict[str, tuple[int, int]]) -> None:
        waiting = self.requests.total()  # some may wait to be taken by the memory
        assert waiting <= 2, f"took a command with {waiting} lines to request"
        for due, name in zip(self.due, STRUCTURES, strict=True):
            lines = lines_of(*command[name])
            due += lines
            self.requests.update(lines)

    def request(self, line: int, tag: int, prefetch: int) -> None:
        assert not prefetch
        assert tag not in self.owed, f"tag {tag} is outstanding twice"
        assert tag >> (self.params.tag_bits - 1) == self.loader
        pending = self.stale if self.stale_left else self.requests
        assert pending[line] > 0, f"line {line:#x} was not to be requested"
        self.stale_left -= self.stale_left > 0
        pending -= Counter([line])
        if not self.stale_left:
            self.stale.clear()
        self.owed[tag] = line
        assert len(self.owed) <= self.params.cam_entries

    def deliver(self, structure: int, content: int, error: int) -> None:
        due = self.due[structure]
        assert due, f"{STRUCTURES[structure]}: a line too many"
        assert (content, error) == memory_line(due[0]), f"{STRUCTURES[structure]}: wrong line"
        due.pop(0)
        self.delivered += 1

    def squash(self, outstanding: int) -> None:
        """``outstanding``: what the unit counts in the cycle after."""
        self.squashes += 1
        self.stale += self.requests
        self.requests = Counter()
        self.stale_left = outstanding - len(self.owed)
        assert 0 <= self.stale_left <= 2
        self.due = [[] for _ in STRUCTURES]

    @property
    def finished(self) -> bool:
        return not (self.requests or self.owed or self.stale_left or any(self.due))


def play(params, *, loader=0, commands, squash=0.0, spurious=0.0, seed=1) -> Scoreboard:
    """Random traffic until ``commands`` commands were taken and everything is quiet."""
    dut = Fetch(params, loader)
    unit = dut.unit
    rng = random.Random(seed)
    board = Scoreboard(params, loader)
    probes = [
        unit.command.ready,
        unit.request.valid,
        unit.request.payload.line,
        unit.request.payload.tag,
        unit.request.payload.prefetch,
        unit.spurious,
        unit.outstanding,
        unit.idle,
    ]
    for queue in dut.queues:
        probes += [queue.o.valid, queue.o.payload.data, queue.o.payload.error]

    async def bench(ctx):
        taken, command, offered, stray = 0, None, None, False
        for cycle in range(400 * commands):
            if cycle % 60 == 0:
                pace = rng.choices((0.1, 0.5, 1.0), k=6)
                order = rng.choice((min, max, lambda tags: rng.choice(list(tags))))
            chance = [rng.random() < p for p in pace]
            if command is None and taken < commands and chance[0]:
                command = random_command(rng, params)
                for name, (base, length) in command.items():
                    ctx.set(unit.command.p[name].base, base)
                    ctx.set(unit.command.p[name].length, length)
            ctx.set(unit.command.valid, command is not None)
            ctx.set(unit.request.ready, chance[1])
            squashes = taken < commands and rng.random() < squash
            ctx.set(unit.squash, squashes)

            tag = None
            all_seen = ctx.get(unit.outstanding) == len(board.owed)  # none waits to be taken
            if rng.random() < spurious and all_seen:
                unknown = set(range(1 << params.tag_bits)) - set(board.owed)
                tag = rng.choice(sorted(unknown))
                content, error = rng.getrandbits(params.line_bits), 0
            elif board.owed and chance[2]:
                tag = order(board.owed)
                content, error = memory_line(board.owed[tag])
            ctx.set(unit.response.valid, tag is not None)
            if tag is not None:
                ctx.set(unit.response.tag, tag)
                ctx.set(unit.response.data, content)
                ctx.set(unit.response.error, error)
            for queue, ready in zip(dut.queues, chance[3:], strict=True):
                ctx.set(queue.o.ready, ready)

            _, _, ready, valid, *request, is_stray, outstanding, idle = (
                values := await ctx.tick().sample(*probes)
            )[: 2 + 8]
            lines = values[2 + 8 :]
            where = f"{params.slug}, cycle {cycle}"
            assert is_stray == stray, where
            assert len(board.owed) <= outstanding <= len(board.owed) + 2, where
            assert offered is None or (valid, request) == (1, offered), where
            offered = request if valid and not chance[1] else None
            for k in range(len(STRUCTURES)):
                given, content, error = lines[3 * k : 3 * k + 3]
                if given and chance[3 + k]:
                    board.deliver(k, content, error)
            stray = tag is not None and tag not in board.owed
            board.owed.pop(tag, None)
            if command is not None and ready:
                board.command(command)
                taken, command = taken + 1, None
            if valid and chance[1]:
                board.request(*request)
            if squashes:
                board.squash(ctx.get(unit.outstanding))
                assert ctx.get(unit.idle), where
            if taken == commands and board.finished and idle:
                break
        else:
            raise TimeoutError(f"{params.slug}: {taken} of {commands} commands, {board.__dict__}")
        await ctx.tick().repeat(4)
        assert ctx.get(unit.outstanding) == 0 and not ctx.get(unit.request.valid)
        assert not any(ctx.get(queue.o.valid) for queue in dut.queues)

    run(dut, bench)
    return board


@pytest.mark.parametrize(
    "params",
    [
        *(pytest.param(PAPER, id="paper"), pytest.param(TIGHT, id="tight")),
        pytest.param(ODD, id="odd", marks=pytest.mark.full),
    ],
)
def test_lines_are_delivered_in_order(params):
    assert play(params, loader=1, commands=25).delivered > 200


@pytest.mark.parametrize("params", [PAPER, TIGHT, ODD], ids=["paper", "tight", "odd"])
def test_squash_at_any_time(params):
    board = play(params, commands=120, squash=0.08, spurious=0.1, seed=2)
    assert board.squashes > 100 and board.delivered > 50


@pytest.mark.full
@pytest.mark.parametrize("squash", [0.0, 0.01, 0.3])
@pytest.mark.parametrize("params", [PAPER, TIGHT, ODD], ids=["paper", "tight", "odd"])
def test_squash_at_any_time_at_length(params, squash):
    board = play(params, loader=1, commands=200, squash=squash, spurious=0.05, seed=3)
    assert board.squashes > 30 or not squash


class Hand:
    """A fetch unit driven by hand: one command at a time, answers by name."""

    def __init__(self, ctx, fetch: Fetch):
        self.ctx, self.fetch, self.unit = ctx, fetch, fetch.unit
        self.owed: list[tuple[int, int]] = []  # line and tag of each request, as they come
        ctx.set(self.unit.request.ready, 1)

    async def step(self, cycles: int = 1) -> None:
        request = self.unit.request
        for _ in range(cycles):
            _, _, valid, ready, line, tag = await self.ctx.tick().sample(
                request.valid, request.ready, request.payload.line, request.payload.tag
            )
            self.owed += [(line, tag)] if valid and ready else []

    async def command(self, **lines: int) -> None:
        """Whole lines of each structure: the data at line 0x300, the others at 0x100, 0x200."""
        for k, name in enumerate(STRUCTURES):
            self.ctx.set(self.unit.command.p[name].base, (k + 1) * 0x100 * LINE)
            self.ctx.set(self.unit.command.p[name].length, lines.get(name, 0) * LINE)
        self.ctx.set(self.unit.command.valid, 1)
        assert self.ctx.get(self.unit.command.ready)
        await self.step()
        self.ctx.set(self.unit.command.valid, 0)

    async def answer(self, tag: int, word: int = 0) -> None:
        self.ctx.set(self.unit.response.valid, 1)
        self.ctx.set(self.unit.response.tag, tag)
        self.ctx.set(self.unit.response.data, word)
        await self.step()
        self.ctx.set(self.unit.response.valid, 0)

    async def squash(self) -> None:
        self.ctx.set(self.unit.squash, 1)
        await self.step()
        self.ctx.set(self.unit.squash, 0)


def by_hand(params: DecaParams, steps) -> None:
    fetch = Fetch(params, 0)

    async def bench(ctx):
        await steps(ctx, Hand(ctx, fetch))

    run(fetch, bench)


def test_a_full_queue_lets_the_others_pass():
    async def steps(ctx, hand):
        await hand.command(mask=2, scale=3, data=4)  # queues of one line for mask and scale
        await hand.step(12)
        assert [line for line, _ in hand.owed] == [0x100, 0x200, 0x300, 0x301, 0x302, 0x303]
        assert not ctx.get(hand.unit.idle)
        await hand.answer(hand.owed[1][1])
        ctx.set(hand.fetch.queues[1].o.ready, 1)
        await hand.step(8)
        assert [line for line, _ in hand.owed[6:]] == [0x201]

    by_hand(PAPER, steps)


def test_a_full_cam_waits_and_any_answer_goes_on():
    async def steps(ctx, hand):
        await hand.command(data=12)
        await hand.step(20)
        assert len(hand.owed) == ODD.cam_entries == ctx.get(hand.unit.outstanding)
        for queue in hand.fetch.queues:
            ctx.set(queue.o.ready, 1)
        await hand.answer(hand.owed[3][1])
        await hand.step(4)
        assert len(hand.owed) == ODD.cam_entries + 1
        assert hand.owed[-1][1] % 8 == hand.owed[3][1] % 8  # the entry that became free
        assert hand.owed[-1][1] != hand.owed[3][1]  # in its other generation

    by_hand(DecaParams(cam_entries=5, sqq_lines=16), steps)


def test_a_second_answer_is_spurious_although_its_entry_is_in_use_again():
    async def steps(ctx, hand):
        spurious = hand.unit.spurious
        await hand.command(data=2)
        await hand.step(4)
        (_, first), _ = hand.owed
        await hand.answer(first, 11)
        assert not ctx.get(spurious)
        await hand.answer(first, 12)
        assert ctx.get(spurious)
        await hand.command(data=1)
        await hand.step(4)
        assert hand.owed[2][1] % 2 == first % 2  # the same of two entries
        await hand.answer(first, 13)
        assert ctx.get(spurious)
        await hand.answer(hand.owed[2][1], 14)
        assert not ctx.get(spurious)
        await hand.answer(hand.owed[1][1], 15)
        assert ctx.get(hand.unit.outstanding) == 0
        ctx.set(hand.fetch.queues[2].o.ready, 1)
        words = []
        for _ in range(8):
            o = hand.fetch.queues[2].o
            _, _, valid, word = await ctx.tick().sample(o.valid, o.payload.data)
            words += [word] if valid else []
        assert words == [11, 15, 14]

    by_hand(DecaParams(cam_entries=2, sqq_lines=4), steps)


def test_answers_around_a_squash_are_dropped_and_the_next_command_starts_at_once():
    async def steps(ctx, hand):
        await hand.command(mask=1, data=8)
        await hand.step(3)
        ctx.set(hand.unit.request.ready, 0)
        await hand.step(2)  # two requests wait to be taken
        old = hand.owed.copy()
        await hand.answer(old[0][1], 21)  # in the register when the squash comes
        ctx.set(hand.unit.squash, 1)
        await hand.answer(old[1][1], 22)  # comes with it
        ctx.set(hand.unit.squash, 0)
        assert ctx.get(hand.unit.idle) and ctx.get(hand.unit.outstanding) == 2
        await hand.command(mask=1)
        ctx.set(hand.unit.request.ready, 1)
        await hand.step(6)
        stale, new = hand.owed[2:4], hand.owed[4:]
        assert [line for line, _ in stale + new] == [0x301, 0x302, 0x100]
        for _, tag in stale:
            await hand.answer(tag, 23)
            assert not ctx.get(hand.unit.spurious)
        await hand.step(6)
        assert not any(ctx.get(queue.o.valid) for queue in hand.fetch.queues)
        await hand.answer(new[0][1], 24)
        await hand.step(2)
        assert [ctx.get(queue.o.valid) for queue in hand.fetch.queues] == [1, 0, 0]
        assert ctx.get(hand.fetch.queues[0].o.payload.data) == 24

    by_hand(PAPER, steps)
