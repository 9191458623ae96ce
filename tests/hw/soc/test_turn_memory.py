# amaranth: UnusedElaboratable=no
"""A memory in block RAM that serves the masters of an accelerator in turn."""

import random

import pytest

from tests.support.clocked import run
from tilewright.golden.params.resolve import resolve
from tilewright.hw.soc.turn_memory import TurnMemory

LINES = 8
OKAY, SLVERR = 0, 2


class Masters:
    """Random requests at every port, one outstanding at each, and a model of the memory.

    Ports write lines of their own, and read those that nobody is writing.
    """

    def __init__(self, ctx, dut, rng):
        self.ctx, self.dut, self.rng = ctx, dut, rng
        self.size, self.channels = dut.params.line_bytes, dut.params.memory_channels
        self.lines = [0] * LINES
        self.checked = dict.fromkeys(("read", "write", "word", "refused"), 0)

    def wire(self, prefix, name):
        return getattr(self.dut, f"{prefix}_axi_{name}")

    async def taken(self, valid, ready):
        """Offer until it is taken."""
        self.ctx.set(valid, 1)
        await self.ctx.tick().until(ready)
        self.ctx.set(valid, 0)

    async def read(self, prefix, place):
        line, tag = self.rng.randrange(LINES // 2 + 1), self.rng.randrange(4)
        self.ctx.set(self.wire(prefix, "araddr"), line * self.size)
        self.ctx.set(self.wire(prefix, "arid"), tag)
        await self.taken(self.wire(prefix, "arvalid"), self.wire(prefix, "arready"))
        for _ in range(self.rng.randrange(3)):
            await self.ctx.tick()
        names = ("rid", "rresp", "rdata", "rlast")
        self.ctx.set(self.wire(prefix, "rready"), 1)
        sampled = self.ctx.tick().sample(*(self.wire(prefix, n) for n in names))
        found = await sampled.until(self.wire(prefix, "rvalid"))
        self.ctx.set(self.wire(prefix, "rready"), 0)
        where = place(line)
        if where >= LINES:
            assert (found[0], found[1]) == (tag, SLVERR)
            self.checked["refused"] += 1
        else:
            assert tuple(found) == (tag, OKAY, self.lines[where], 1)
            self.checked["read"] += 1

    async def write(self, prefix, place):
        line, value = self.rng.randrange(LINES // 2 + 1), self.rng.getrandbits(8 * self.size)
        strobes = self.rng.getrandbits(self.size)
        for name, v in (("awaddr", line * self.size), ("wdata", value), ("wstrb", strobes)):
            self.ctx.set(self.wire(prefix, name), v)
        self.ctx.set(self.wire(prefix, "wvalid"), 1)
        await self.taken(self.wire(prefix, "awvalid"), self.wire(prefix, "awready"))
        self.ctx.set(self.wire(prefix, "wvalid"), 0)
        self.ctx.set(self.wire(prefix, "bready"), 1)
        sampled = self.ctx.tick().sample(self.wire(prefix, "bresp"))
        (answer,) = await sampled.until(self.wire(prefix, "bvalid"))
        self.ctx.set(self.wire(prefix, "bready"), 0)
        where = place(line)
        assert answer == (OKAY if where < LINES else SLVERR)
        if where < LINES:
            mask = sum(255 << 8 * k for k in range(self.size) if strobes >> k & 1)
            self.lines[where] = self.lines[where] & ~mask | value & mask
            self.checked["write"] += 1

    async def word(self):
        ctx, bus = self.ctx, self.dut.bus
        line, place = self.rng.randrange(LINES), self.rng.randrange(self.size // 4)
        writes, value = self.rng.random() < 0.5, self.rng.getrandbits(32)
        ctx.set(bus.address, line * self.size + 4 * place)
        ctx.set(bus.data, value)
        ctx.set(bus.strobes, 15 if writes else 0)
        ctx.set(bus.valid, 1)
        (answer,) = await ctx.tick().sample(bus.answer).until(bus.ready)
        ctx.set(bus.valid, 0)
        if writes:
            self.lines[line] &= ~(0xFFFFFFFF << 32 * place)
            self.lines[line] |= value << 32 * place
        else:
            assert answer == self.lines[line] >> 32 * place & 0xFFFFFFFF
        self.checked["word"] += 1


def test_every_port_reads_what_was_written_last():
    dut, rng = TurnMemory(resolve("anda_axi:small"), LINES), random.Random(5)

    async def bench(ctx):
        masters = Masters(ctx, dut, rng)
        channels = masters.channels
        for _ in range(150):
            channel = rng.randrange(channels)

            def place(line, channel=channel):
                return line * channels + channel

            await rng.choice(
                [
                    lambda c=channel, p=place: masters.read(f"m{c}", p),
                    lambda c=channel, p=place: masters.write(f"m{c}", p),
                    lambda: masters.read("code", lambda line: line),
                    masters.word,
                ]
            )()
        assert min(masters.checked.values()) > 5, masters.checked

    run(dut, bench)


def test_everybody_gets_a_turn():
    """All masters ask at once and go on asking; nobody waits for ever."""
    dut = TurnMemory(resolve("anda_axi:small"), LINES)
    readers = ("m0", "m1", "code")

    async def bench(ctx):
        served = dict.fromkeys((*readers, "bus"), 0)
        for prefix in readers:
            ctx.set(getattr(dut, f"{prefix}_axi_arvalid"), 1)
            ctx.set(getattr(dut, f"{prefix}_axi_rready"), 1)
        ctx.set(dut.bus.valid, 1)
        for _ in range(60):
            await ctx.tick()
            for prefix in readers:
                served[prefix] += ctx.get(getattr(dut, f"{prefix}_axi_rvalid"))
            served["bus"] += ctx.get(dut.bus.ready)
        assert max(served.values()) - min(served.values()) <= 1 < min(served.values())

    run(dut, bench)


def test_sizes_are_refused():
    with pytest.raises(ValueError, match=r"^lines must be a power of two, not 12$"):
        TurnMemory(resolve("anda_axi:small"), 12)
