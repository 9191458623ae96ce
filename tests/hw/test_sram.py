# amaranth: UnusedElaboratable=no
"""The memory: both ports at once against a list, and the macro it becomes for synthesis."""

import random

import pytest
from amaranth.back import rtlil

from tests.support.clocked import run
from tilewright.hw.sram import BlackBoxMemories, Sram


@pytest.mark.parametrize(("depth", "width", "granularity"), [(2, 1, None), (5, 24, 8), (32, 70, 7)])
def test_reads_what_was_written_before(depth, width, granularity):
    dut = Sram(depth, width, granularity)
    rng = random.Random(1)
    part = granularity or width
    words = [0] * depth
    shown = 0

    async def bench(ctx):
        nonlocal shown
        collisions = 0
        for _ in range(400):
            write, read = rng.randrange(depth), rng.randrange(depth)
            enable, new = rng.getrandbits(width // part), rng.getrandbits(width)
            reads = rng.random() < 0.7
            ctx.set(dut.write_enable, enable)
            ctx.set(dut.write_address, write)
            ctx.set(dut.write_data, new)
            ctx.set(dut.read_enable, reads)
            ctx.set(dut.read_address, read)
            await ctx.tick()
            shown = words[read] if reads else shown
            collisions += reads and write == read and enable != 0
            mask = sum((1 << part) - 1 << k * part for k in range(width // part) if enable >> k & 1)
            words[write] = words[write] & ~mask | new & mask
            assert ctx.get(dut.read_data) == shown
        assert collisions > 5

    run(dut, bench)


@pytest.mark.parametrize(
    ("granularity", "name"), [(None, "sram_32x512_1r1w"), (64, "sram_32x512_1r1w_g64")]
)
def test_is_a_macro_where_memories_are_black_boxes(granularity, name):
    text = rtlil.convert(Sram(32, 512, granularity), platform=BlackBoxMemories(), emit_src=False)
    assert f"cell \\{name} " in text
    assert "memory" not in text


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ((1, 8), r"^depth must be at least 2, not 1$"),
        ((2, 0), r"^width must be at least 1, not 0$"),
        ((2, 8, 3), r"^granularity must divide the width 8, not 3$"),
    ],
)
def test_refusals(arguments, message):
    with pytest.raises(ValueError, match=message):
        Sram(*arguments)
