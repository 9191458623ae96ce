# amaranth: UnusedElaboratable=no
"""The line queue against a list: any order of arrival, any stall, any flush."""

import random

import pytest

from tests.support.clocked import run
from tilewright.hw.stream.line_queue import LineQueue

BITS = 16  # a line's content only has to be told apart
SHAPES = [(1, False), (2, False), (5, False), (2, True), (3, True), (32, True)]


def show(ctx, port, slot, word):
    """Write ``word`` (data and, above it, the error bit) to a slot; ``None`` writes nothing."""
    ctx.set(port.write.valid, word is not None)
    if word is not None:
        ctx.set(port.write.slot, slot)
        ctx.set(port.write.data, word % (1 << BITS))
        ctx.set(port.write.error, word >> BITS)


def play(lines, sram, *, cycles, flush, seed):
    """Random traffic, whose bottleneck changes place; returns how many lines left."""
    dut = LineQueue(lines, BITS, sram)
    rng = random.Random(seed)
    due: list[int] = []  # words in the order of their reservations
    missing: dict[int, int] = {}  # slot -> word, reserved and not yet written
    left = 0

    async def bench(ctx):
        nonlocal left
        offered = None
        for cycle in range(cycles):
            if cycle % 50 == 0:
                pace = rng.choices((0.2, 0.6, 1.0), k=3)  # reserve, arrive, take
            chance = [rng.random() < p for p in pace]
            flushes = rng.random() < flush
            reserves = chance[0] and ctx.get(dut.port.free)
            slot = ctx.get(dut.port.slot)
            arrives = rng.choice(list(missing)) if chance[1] and missing else None
            ctx.set(dut.port.reserve, reserves)
            show(ctx, dut.port, arrives, missing.get(arrives))
            ctx.set(dut.o.ready, chance[2])
            ctx.set(dut.flush, flushes)
            _, _, valid, word = await ctx.tick().sample(dut.o.valid, dut.o.payload.as_value())
            assert offered is None or (valid, word) == (1, offered), f"cycle {cycle}"
            offered = word if valid and not chance[2] and not flushes else None
            if valid:
                assert word == due[0], f"cycle {cycle}"
                if chance[2]:
                    due.pop(0)
                    left += 1
            missing.pop(arrives, None)
            if reserves:
                assert slot not in missing, f"cycle {cycle}: slot {slot} is still in use"
                due.append(rng.getrandbits(BITS + 1))
                missing[slot] = due[-1]
            if flushes:
                due.clear()
                missing.clear()
                assert ctx.get(dut.port.free) and not ctx.get(dut.o.valid)
            assert len(missing) <= lines

    run(dut, bench)
    return left


@pytest.mark.parametrize(("lines", "sram"), SHAPES)
def test_order_is_kept_and_flush_forgets_everything(lines, sram):
    """Between flushes a queue fills, and is empty, several times."""
    assert play(lines, sram, cycles=2000, flush=0.01, seed=2) > 200


@pytest.mark.parametrize(("lines", "sram"), SHAPES)
def test_every_slot_can_be_reserved_before_a_line_arrives(lines, sram):
    dut = LineQueue(lines, BITS, sram)

    async def bench(ctx):
        slots = []
        ctx.set(dut.port.reserve, 1)
        while ctx.get(dut.port.free):
            slots.append(ctx.get(dut.port.slot))
            await ctx.tick()
        assert sorted(slots) == list(range(lines))
        ctx.set(dut.port.reserve, 0)
        for word, slot in reversed(list(enumerate(slots))):  # the last one first
            assert not ctx.get(dut.o.valid)
            show(ctx, dut.port, slot, word)
            await ctx.tick()
        show(ctx, dut.port, 0, None)
        await ctx.tick().repeat(3)
        ctx.set(dut.o.ready, 1)
        for word in range(lines):  # in consecutive cycles, although the consumer made them wait
            assert ctx.get(dut.o.valid) and ctx.get(dut.o.payload.data) == word
            await ctx.tick()

    run(dut, bench)


@pytest.mark.parametrize(("lines", "sram"), [(3, False), (8, False), (4, True), (32, True)])
def test_one_line_a_cycle(lines, sram):
    """Reserved and written in consecutive cycles, a line leaves every cycle."""
    dut = LineQueue(lines, BITS, sram)
    latency = 3 if sram else 1  # from the write to the offer

    async def bench(ctx):
        ctx.set(dut.o.ready, 1)
        ctx.set(dut.port.reserve, 1)
        slot, given = None, []
        for cycle in range(100):
            assert ctx.get(dut.port.free), f"cycle {cycle}"
            show(ctx, dut.port, slot, None if slot is None else cycle)
            slot = ctx.get(dut.port.slot)
            _, _, valid, word = await ctx.tick().sample(dut.o.valid, dut.o.payload.data)
            given += [(cycle, word)] if valid else []
        assert given == [(cycle, cycle - latency) for cycle in range(1 + latency, 100)]

    run(dut, bench)


def test_one_line_of_registers_is_offered_and_reused_the_next_cycle():
    dut = LineQueue(1, BITS, False)

    async def bench(ctx):
        ctx.set(dut.port.reserve, 1)
        await ctx.tick()
        ctx.set(dut.port.reserve, 0)
        assert not ctx.get(dut.port.free)
        show(ctx, dut.port, 0, 7)
        await ctx.tick()
        show(ctx, dut.port, 0, None)
        ctx.set(dut.o.ready, 1)
        assert ctx.get(dut.o.valid) and ctx.get(dut.o.payload.data) == 7
        assert not ctx.get(dut.port.free)
        await ctx.tick()
        assert ctx.get(dut.port.free) and not ctx.get(dut.o.valid)

    run(dut, bench)


def test_too_few_lines_are_refused():
    with pytest.raises(ValueError, match=r"^lines must be at least 1, not 0$"):
        LineQueue(0, BITS, False)
    with pytest.raises(ValueError, match=r"^lines must be at least 2, not 1$"):
        LineQueue(1, BITS, True)
