"""Stream units beyond their benches: capacity, order of service, handshake paths."""

import numpy as np
import pytest
from amaranth import signed
from amaranth.lib import data

from tests.support.clocked import run
from tilewright.golden.params.stream import QueueParams, RegisterSliceParams
from tilewright.hw.catalog import build
from tilewright.hw.stream.queue import Queue
from tilewright.hw.stream.register_slice import RegisterSlice


@pytest.mark.parametrize("depth", [1, 2, 5, 8])
def test_queue_holds_its_depth(depth):
    queue = build(QueueParams(width=8, depth=depth))

    async def bench(ctx):
        ctx.set(queue.i.valid, 1)
        for level in range(depth):
            assert (ctx.get(queue.level), ctx.get(queue.i.ready)) == (level, 1)
            await ctx.tick()
        for _ in range(3):
            assert (ctx.get(queue.level), ctx.get(queue.i.ready)) == (depth, 0)
            await ctx.tick()

    run(queue, bench)


@pytest.mark.parametrize("make", [RegisterSlice, lambda shape: Queue(shape, 2)])
@pytest.mark.parametrize(
    ("shape", "value"),
    [
        (data.StructLayout({"low": 4, "high": signed(3)}), {"low": 9, "high": -2}),
        (data.ArrayLayout(2, 3), [1, 2, 3]),
        (signed(5), -7),
        (12, 0xABC),
    ],
    ids=["struct", "array", "signed", "word"],
)
def test_payloads_have_any_shape(make, shape, value):
    """Payloads leave in the shape in which they entered, without packing in between."""
    dut = make(shape)

    async def bench(ctx):
        ctx.set(dut.i.valid, 1)
        ctx.set(dut.i.payload, value)
        await ctx.tick()
        assert ctx.get(dut.o.valid)
        assert ctx.get(dut.o.payload) == value

    run(dut, bench)


@pytest.mark.parametrize(
    "params",
    [RegisterSliceParams(width=8), QueueParams(width=8, depth=1), QueueParams(width=8, depth=3)],
    ids=lambda p: p.slug,
)
def test_no_handshake_path_crosses(params):
    """Within a cycle, neither side's offer or demand changes what the other side sees."""
    dut, rng = build(params), np.random.default_rng(1)

    async def bench(ctx):
        for _ in range(200):
            seen = set()
            for valid, ready, word in rng.permutation([(0, 0, 0), (0, 1, 3), (1, 0, 5), (1, 1, 6)]):
                ctx.set(dut.i.valid, int(valid))
                ctx.set(dut.o.ready, int(ready))
                ctx.set(dut.i.p.data, int(word))
                seen.add((ctx.get(dut.i.ready), ctx.get(dut.o.valid), ctx.get(dut.o.p.data)))
            assert len(seen) == 1
            await ctx.tick()

    run(dut, bench)
