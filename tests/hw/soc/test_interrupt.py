# amaranth: UnusedElaboratable=no
"""The interrupt registers against their model, cycle by cycle, at random."""

import random

import pytest

from tests.support.clocked import run
from tests.support.mutate import mutant, planted
from tilewright.golden.params.machine import REGISTER_SPACE_BITS, Register
from tilewright.hw.soc.interrupt import Interrupt

ADDRESSES = (Register.INTERRUPT, Register.INTERRUPT_ENABLE, Register.LIMIT, Register.COUNTERS)


def play(component=Interrupt, cycles=600):
    dut = component(Register, REGISTER_SPACE_BITS)

    async def bench(ctx):
        rng = random.Random(1)
        pending = enabled = 0
        for _ in range(cycles):
            address, data, put = rng.choice(ADDRESSES), rng.randrange(4), rng.randrange(2)
            events = rng.randrange(4) if rng.random() < 0.3 else 0
            for signal, value in (
                (dut.address, address),
                (dut.data, data),
                (dut.put, put),
                (dut.events, events),
            ):
                ctx.set(signal, value)
            assert ctx.get(dut.irq) == bool(pending & enabled)
            assert ctx.get(dut.mine) == (address in ADDRESSES[:2])
            if address == Register.INTERRUPT:
                assert ctx.get(dut.value) == pending
            if address == Register.INTERRUPT_ENABLE:
                assert ctx.get(dut.value) == enabled
            await ctx.tick()
            if put and address == Register.INTERRUPT:
                pending &= ~data
            if put and address == Register.INTERRUPT_ENABLE:
                enabled = data
            pending |= events

    run(dut, bench)


def test_it_is_the_model():
    play()


@pytest.mark.parametrize(
    ("old", "new"),
    planted(
        {
            "an event that a clear loses": (
                "(pending & ~cleared) | self.events",
                "(pending | self.events) & ~cleared",
            ),
            "a write that clears all": ("cleared.eq(self.data)", "cleared.eq(~0)"),
            "irq without an enable": ("(pending & enabled).any()", "pending.any()"),
        }
    ),
)
def test_a_planted_error_is_found(old, new):
    with pytest.raises(AssertionError):
        play(mutant(Interrupt, old, new))
