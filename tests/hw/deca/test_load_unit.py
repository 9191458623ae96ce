"""The load unit with its queues, driven by hand; tests/verify/test_deca.py has random traffic."""

import random

from amaranth import Module
from amaranth.lib import wiring
from amaranth.lib.wiring import connect

from tests.support.clocked import run
from tilewright.golden.params.deca import STRUCTURES, TILE_BYTES, DecaParams
from tilewright.hw.deca.load_unit import LoadUnit
from tilewright.hw.deca.request_cam import queue_lines
from tilewright.hw.stream.line_queue import LineQueue

PAPER = DecaParams()
LINE = PAPER.line_bytes


def lines_of(base: int, length: int) -> list[int]:
    return sorted({byte // LINE for byte in range(base, base + length)})


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


def test_each_touched_line_is_requested_once_and_the_bitmask_first():
    """Every alignment, lengths around whole lines; one request a cycle."""
    unit = Fetch(PAPER, 0)
    dut = unit.unit
    rng = random.Random(3)

    async def bench(ctx):
        ctx.set(dut.request.ready, 1)
        for start in range(LINE):
            command = {}
            for name, room in zip(STRUCTURES, (1, 1, 17), strict=True):
                length = rng.randrange(room * LINE - start + 1) if rng.random() < 0.7 else 0
                length = min(length, TILE_BYTES)
                command[name] = rng.randrange(1 << 40) * LINE + start, length
                ctx.set(dut.command.p[name].base, command[name][0])
                ctx.set(dut.command.p[name].length, length)
            ctx.set(dut.command.valid, 1)
            assert ctx.get(dut.command.ready)
            await ctx.tick()
            ctx.set(dut.command.valid, 0)
            lines = [line for name in STRUCTURES for line in lines_of(*command[name])]
            assert ctx.get(dut.idle) == (not lines)
            await ctx.tick()
            for line in lines:
                assert ctx.get(dut.request.valid) and ctx.get(dut.request.payload.line) == line
                await ctx.tick()
            assert not ctx.get(dut.request.valid) and ctx.get(dut.idle)
            assert ctx.get(dut.outstanding) == len(lines)
            await squash_and_answer(ctx)

    async def squash_and_answer(ctx):
        """Back to an empty unit; every tag that is out has the same first generation or not."""
        ctx.set(dut.squash, 1)
        await ctx.tick()
        ctx.set(dut.squash, 0)
        ctx.set(dut.response.valid, 1)
        for tag in range(1 << (PAPER.tag_bits - 1)):
            ctx.set(dut.response.tag, tag)
            await ctx.tick()
        ctx.set(dut.response.valid, 0)
        await ctx.tick().repeat(2)
        assert ctx.get(dut.outstanding) == 0

    run(unit, bench)


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
        assert len(hand.owed) == 5 == ctx.get(hand.unit.outstanding)
        for queue in hand.fetch.queues:
            ctx.set(queue.o.ready, 1)
        await hand.answer(hand.owed[3][1])
        await hand.step(4)
        assert len(hand.owed) == 5 + 1
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


def test_a_command_taken_in_the_cycle_of_a_squash_is_forgotten():
    async def steps(ctx, hand):
        ctx.set(hand.unit.squash, 1)
        await hand.command(mask=1, data=8)
        ctx.set(hand.unit.squash, 0)
        assert ctx.get(hand.unit.idle)
        await hand.step(6)
        assert not hand.owed

    by_hand(PAPER, steps)
