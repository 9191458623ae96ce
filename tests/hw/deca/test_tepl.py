# amaranth: UnusedElaboratable=no
"""The TEPL unit driven by hand; tests/verify/test_deca.py has it between a core and the PE."""

import pytest

from tests.support.clocked import prepared, run
from tilewright.golden.params.deca import (
    TEPL_ID_BITS,
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


def test_flush_spares_an_older_tepl_of_the_same_port():
    """The loader goes on with it and is squashed when its last row has been asked for."""

    async def steps(ctx, hand, dut):
        for number in (3, 4, 5):
            await hand.dispatch(number)
        await ctx.tick().repeat(6)
        await hand.send(dut.flush, id=4)
        assert ctx.get(dut.squash) == 0
        await hand.dispatch(4)
        assert await hand.next_command() == (1, 4)  # the other port has nothing to lose
        ctx.set(dut.done0.valid, 1)
        writes, completions, squashes = await hand.watch(30, lambda _: 0xFFFF)
        assert [row for _, register, row, _ in writes] == [*range(16)]
        assert {register for _, register, _, _ in writes} == {3}
        assert [end[1:] for end in completions] == [(3, 0)]
        # In the cycle in which the last row is answered.
        assert squashes == [(writes[-1][0], 0b01)]
        ctx.set(dut.done0.valid, 0)
        await hand.dispatch(5)
        assert await hand.next_command() == (0, 5)

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


def test_flush_may_name_a_tepl_that_has_completed():
    async def steps(ctx, hand, dut):
        for number in (62, 63, 0):  # the numbers go round
            await hand.dispatch(number)
            await ctx.tick().repeat(3)
            if number != 0:
                await hand.send(dut.done0, error=TileError.BUS)
                await ctx.tick().repeat(4)
        await hand.dispatch(1)
        await ctx.tick().repeat(4)
        await hand.send(dut.flush, id=63)
        assert ctx.get(dut.squash) == 0b11  # 0 and 1, which are younger
        await hand.dispatch(63)
        assert await hand.next_command() == (0, 63)

    by_hand(steps, SINGLE)


def test_flush_spares_older_tepls():
    async def steps(ctx, hand, dut):
        for number in (3, 4, 5):
            await hand.dispatch(number)
        await ctx.tick().repeat(5)
        await hand.send(dut.flush, id=4)
        assert ctx.get(dut.squash) == 0b10
        await ctx.tick().repeat(5)
        assert hand.offers() == [None, None]  # 5 is gone as well
        await hand.send(dut.done0, error=TileError.BUS)
        await ctx.tick()
        assert ctx.get(dut.complete.valid) and ctx.get(dut.complete.payload.id) == 3

    by_hand(steps, SINGLE)


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
