# amaranth: UnusedElaboratable=no
"""Bytes over a serial line, and a host on it."""

import random

import pytest
from amaranth import Module
from amaranth.lib import wiring
from amaranth.lib.wiring import Out

from tests.support.clocked import run
from tilewright.hw.soc.serial_master import SerialMaster
from tilewright.hw.soc.uart import UartReceiver, UartTransmitter
from tilewright.hw.soc.word_bus import WORD_BUS

DIVIDER = 5


class Line(wiring.Component):
    """A transmitter of the test's, a master between both wires, a receiver of the test's."""

    def __init__(self):
        self.given = UartTransmitter(DIVIDER)
        self.got = UartReceiver(DIVIDER)
        super().__init__({"bus": Out(WORD_BUS)})

    def elaborate(self, platform):
        m = Module()
        m.submodules += [self.given, self.got]
        m.submodules.receiver = receiver = UartReceiver(DIVIDER)
        m.submodules.transmitter = transmitter = UartTransmitter(DIVIDER)
        m.submodules.master = master = SerialMaster()
        wiring.connect(m, receiver.o, master.i)
        wiring.connect(m, master.o, transmitter.i)
        wiring.connect(m, wiring.flipped(self.bus), master.bus)
        m.d.comb += [receiver.rx.eq(self.given.tx), self.got.rx.eq(transmitter.tx)]
        return m


async def send(ctx, line, *values):
    for value in values:
        ctx.set(line.given.i.payload, value)
        ctx.set(line.given.i.valid, 1)
        await ctx.tick().until(line.given.i.ready)
        ctx.set(line.given.i.valid, 0)


def test_words_are_written_and_read_over_the_line():
    """A bus that takes its time, and bytes between accesses that mean nothing."""
    line, rng, memory = Line(), random.Random(3), {}
    log = []

    async def bench(ctx):
        ctx.set(line.got.o.ready, 1)
        for _ in range(6):
            address, word = rng.randrange(4) << 2 | 0xA0000000, rng.randrange(1 << 32)
            writes = rng.random() < 0.5 or address not in memory
            request = (b"W" if writes else b"R") + address.to_bytes(4, "little")
            request += word.to_bytes(4, "little") if writes else b""
            await send(ctx, line, 0, 255, *request)
            await ctx.tick().until(line.bus.valid)
            await ctx.tick().repeat(1 + rng.randrange(3))
            assert ctx.get(line.bus.address) == address
            assert ctx.get(line.bus.strobes) == (15 if writes else 0)
            if writes:
                memory[address] = ctx.get(line.bus.data)
                assert memory[address] == word
            else:
                ctx.set(line.bus.answer, memory[address])
            ctx.set(line.bus.ready, 1)
            await ctx.tick()
            ctx.set(line.bus.ready, 0)
            answer = b""
            while len(answer) < (1 if writes else 4):
                (byte,) = await ctx.tick().sample(line.got.o.payload).until(line.got.o.valid)
                answer += bytes([byte])
            assert answer == (b"W" if writes else memory[address].to_bytes(4, "little"))
            log.append(writes)

    run(line, bench)
    assert set(log) == {True, False}


def test_a_byte_without_its_stop_bit_is_dropped():
    dut = UartReceiver(4)

    async def bench(ctx):
        seen = []

        async def bits(*levels):
            for level in levels:
                ctx.set(dut.rx, level)
                for _ in range(4):
                    await ctx.tick()
                    if ctx.get(dut.o.valid):
                        seen.append(ctx.get(dut.o.payload))

        ctx.set(dut.o.ready, 1)
        await bits(1, 1, 0, 1, 0, 0, 0, 0, 0, 0, 0, 1, 1, 1)  # 1
        await bits(0, 0, 1, 0, 0, 0, 0, 0, 0, 0, 1, 1)  # low where it should stop: read on
        assert seen[0] == 1
        seen.clear()
        await bits(*[1] * 12)
        seen.clear()
        await bits(0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1, 1, 1)  # a stop bit that is 0
        assert seen == []

    run(dut, bench)


def test_bits_too_short_are_refused():
    with pytest.raises(ValueError, match=r"^divider must be at least 4 cycles a bit, not 3$"):
        UartReceiver(3)
    with pytest.raises(ValueError, match=r"^divider must be at least 4 cycles a bit, not 0$"):
        UartTransmitter(0)
