"""Watchdog: notices that a program no longer makes progress."""

from amaranth import Module, Signal
from amaranth.lib import wiring
from amaranth.lib.wiring import In, Out

from tilewright.golden.params.machine import LIMIT_BITS


class Watchdog(wiring.Component):
    """Counts cycles of a ``running`` program in which there is no ``progress``.

    ``expired`` in the cycle after the ``limit``-th of them in a row; never if the limit is 0.
    """

    running: In(1)
    progress: In(1)
    limit: In(LIMIT_BITS)
    expired: Out(1)

    def elaborate(self, platform: object) -> Module:
        m = Module()
        quiet = Signal(LIMIT_BITS)
        m.d.comb += self.expired.eq(self.running & self.limit.any() & (quiet >= self.limit))
        m.d.sync += quiet.eq(quiet + 1)
        with m.If(self.progress | ~self.running):
            m.d.sync += quiet.eq(0)
        return m
