"""A level interrupt with a status register and an enable register."""

from enum import IntEnum

from amaranth import Module, Mux, Signal
from amaranth.lib import wiring
from amaranth.lib.wiring import In, Out

from tilewright.golden.params.block import INTERRUPT_FIELDS

BITS = sum(field.bits for field in INTERRUPT_FIELDS)


class Interrupt(wiring.Component):
    """Registers ``INTERRUPT`` and ``INTERRUPT_ENABLE`` of ``registers``, and ``irq``.

    A 1 in ``events`` sets its bit of ``INTERRUPT``; a 1 that is written there clears it, unless its
    event is in the same cycle. ``irq`` is high while a bit is set in both. ``mine`` says that
    ``address`` is one of the two, ``value`` what it reads; ``put`` writes ``data``.
    """

    def __init__(self, registers: type[IntEnum], address_bits: int):
        self.status = registers["INTERRUPT"]
        self.enable = registers["INTERRUPT_ENABLE"]
        super().__init__(
            {
                "events": In(BITS),
                "address": In(address_bits),
                "put": In(1),
                "data": In(BITS),
                "mine": Out(1),
                "value": Out(BITS),
                "irq": Out(1),
            }
        )

    def elaborate(self, platform: object) -> Module:
        m = Module()
        pending, enabled, cleared = Signal(BITS), Signal(BITS), Signal(BITS)
        is_status = self.address == self.status
        is_enable = self.address == self.enable
        with m.If(self.put & is_status):
            m.d.comb += cleared.eq(self.data)
        with m.If(self.put & is_enable):
            m.d.sync += enabled.eq(self.data)
        m.d.sync += pending.eq((pending & ~cleared) | self.events)
        m.d.comb += [
            self.mine.eq(is_status | is_enable),
            self.value.eq(Mux(is_status, pending, enabled)),
            self.irq.eq((pending & enabled).any()),
        ]
        return m
