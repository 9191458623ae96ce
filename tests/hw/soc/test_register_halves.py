# amaranth: UnusedElaboratable=no
"""Registers of 64 bits by halves, before registers that stall and sometimes refuse."""

import random

import pytest

from tests.support.clocked import run
from tilewright.hw.soc.register_halves import RegisterHalves

OKAY, SLVERR = 0, 2
REFUSED = 0x40  # the one register that the model refuses


class Slave:
    """Registers on AXI4-Lite that take their time, and nothing while an answer waits."""

    def __init__(self, ctx, dut, rng, stall):
        self.ctx, self.dut, self.rng, self.stall = ctx, dut, rng, stall
        self.registers = {}
        self.accesses = []  # (address, value), value None of a read
        self.address = self.data = None
        self.answer = None

    def step(self):
        """Look at this cycle's signals and set what the slave shows in the next one."""
        ctx, d = self.ctx, self.dut
        if ctx.get(d.s_axi_awvalid) and ctx.get(d.s_axi_awready):
            assert self.address is None
            self.address = ctx.get(d.s_axi_awaddr)
        if ctx.get(d.s_axi_wvalid) and ctx.get(d.s_axi_wready):
            assert ctx.get(d.s_axi_wstrb) == 0xFF
            self.data = ctx.get(d.s_axi_wdata)
        if ctx.get(d.s_axi_arvalid) and ctx.get(d.s_axi_arready):
            address = ctx.get(d.s_axi_araddr)
            self.accesses.append((address, None))
            self.answer = ("r", SLVERR if address == REFUSED else OKAY, address)
        if ctx.get(d.s_axi_bvalid) and ctx.get(d.s_axi_bready):
            self.answer = None
        if ctx.get(d.s_axi_rvalid) and ctx.get(d.s_axi_rready):
            self.answer = None
        if self.address is not None and self.data is not None:
            self.accesses.append((self.address, self.data))
            self.answer = ("b", SLVERR if self.address == REFUSED else OKAY, self.address)
            self.registers[self.address] = self.data
            self.address = self.data = None

    def show(self):
        ctx, d = self.ctx, self.dut
        goes = [self.rng.random() >= self.stall for _ in range(4)]
        free = self.answer is None
        ctx.set(d.s_axi_awready, goes[0] and free and self.address is None)
        ctx.set(d.s_axi_wready, goes[1] and free and self.data is None)
        ctx.set(d.s_axi_arready, goes[2] and free)
        shown = self.answer if goes[3] or ctx.get(d.s_axi_bvalid | d.s_axi_rvalid) else None
        kind, code, address = shown or ("", OKAY, 0)
        ctx.set(d.s_axi_bvalid, kind == "b")
        ctx.set(d.s_axi_rvalid, kind == "r")
        ctx.set(d.s_axi_bresp, code)
        ctx.set(d.s_axi_rresp, code)
        ctx.set(d.s_axi_rdata, self.registers.get(address, 0))


def play(accesses, *, stall=0.0, seed=1):
    """Answers and refusals of a processor's ``accesses``, and what reached the registers."""
    dut, found = RegisterHalves(), []
    slave = None

    async def bench(ctx):
        nonlocal slave
        slave = Slave(ctx, dut, random.Random(seed), stall)
        for address, data, strobes in accesses:
            ctx.set(dut.bus.address, address)
            ctx.set(dut.bus.data, data)
            ctx.set(dut.bus.strobes, strobes)
            ctx.set(dut.bus.valid, 1)
            for _ in range(200):
                slave.show()
                ready, refused = ctx.get(dut.bus.ready), ctx.get(dut.refused)
                answer = ctx.get(dut.bus.answer)
                slave.step()
                await ctx.tick()
                if ready:
                    break
                assert not refused
            else:
                raise AssertionError(f"no answer to {address:#x}")
            ctx.set(dut.bus.valid, 0)
            found.append((answer, bool(refused)))
            slave.show()
            slave.step()
            await ctx.tick()

    run(dut, bench)
    return found, slave


@pytest.mark.parametrize("stall", [0.0, 0.5])
def test_whole_registers_pass(stall):
    """A register is written with its high half and read with its low one, once each."""
    rng = random.Random(7)
    values = {8 * k: rng.getrandbits(64) for k in range(1, 8)}
    writes = [(a + 4 * h, v >> 32 * h & 0xFFFFFFFF, 15) for a, v in values.items() for h in (0, 1)]
    reads = [(address + 4 * half, 0, 0) for address in values for half in (0, 1)]
    found, slave = play(writes + reads, stall=stall)
    assert not any(refused for _, refused in found)
    assert slave.accesses == [*values.items(), *((address, None) for address in values)]
    halves = [answer for answer, _ in found[len(writes) :]]
    assert [lo | hi << 32 for lo, hi in zip(halves[::2], halves[1::2], strict=True)] == list(
        values.values()
    )


LOW, HIGH, OTHER = (8, 1, 15), (12, 2, 15), (20, 3, 15)


@pytest.mark.parametrize(
    ("accesses", "refused", "reached"),
    [
        ([HIGH], [True], []),  # no low half before it
        ([LOW, OTHER], [False, True], []),  # the high half of another register
        ([LOW, (12, 0, 0)], [False, True], []),  # kept to be written, not to be read
        ([(8, 0, 0), HIGH], [False, True], [(8, None)]),
        ([(8, 1, 3)], [True], []),  # two bytes
        ([LOW, (12, 2, 1), HIGH], [False, True, True], []),  # what was kept is gone
        ([LOW, HIGH, HIGH], [False, False, True], [(8, 2 << 32 | 1)]),
        ([(REFUSED, 0, 0)], [True], [(REFUSED, None)]),  # by the accelerator
        ([(REFUSED, 1, 15), (REFUSED + 4, 0, 15)], [False, True], [(REFUSED, 1)]),
    ],
)
def test_refusals(accesses, refused, reached):
    found, slave = play(accesses)
    assert [was for _, was in found] == refused
    assert slave.accesses == reached
