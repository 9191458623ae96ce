"""Registers of 64 bits for a processor of 32."""

from amaranth import Cat, Module, Signal
from amaranth.lib import wiring
from amaranth.lib.wiring import In, Out

from tilewright.golden.params.machine import REGISTER_BITS, REGISTER_SPACE_BITS
from tilewright.hw.soc.word_bus import WORD_BITS, WORD_BUS


class RegisterHalves(wiring.Component):
    """Halves of registers on a word bus to whole registers on AXI4-Lite (``s_axi_``).

    Reading a low half reads the register and latches its high half, which the next access reads.
    Writing a low half latches it, and writing its high half sends both. So a register is never
    seen between two values.

    An access that the accelerator refuses, a write of less than a half, and a high half without its
    low half raise ``refused`` for a cycle; the processor is answered all the same.

    Timing: a latched half takes one cycle, an accessed register two and those of AXI.
    """

    def __init__(self) -> None:
        address = REGISTER_SPACE_BITS
        super().__init__(
            {
                "bus": In(WORD_BUS),
                "refused": Out(1),
                "s_axi_awaddr": Out(address),
                "s_axi_awvalid": Out(1),
                "s_axi_awready": In(1),
                "s_axi_wdata": Out(REGISTER_BITS),
                "s_axi_wstrb": Out(REGISTER_BITS // 8),
                "s_axi_wvalid": Out(1),
                "s_axi_wready": In(1),
                "s_axi_bresp": In(2),
                "s_axi_bvalid": In(1),
                "s_axi_bready": Out(1),
                "s_axi_araddr": Out(address),
                "s_axi_arvalid": Out(1),
                "s_axi_arready": In(1),
                "s_axi_rdata": In(REGISTER_BITS),
                "s_axi_rresp": In(2),
                "s_axi_rvalid": In(1),
                "s_axi_rready": Out(1),
            }
        )

    def elaborate(self, platform: object) -> Module:
        m = Module()
        bus = self.bus
        register = bus.address[3:REGISTER_SPACE_BITS]  # its number
        high, writes = bus.address[2], bus.strobes.any()
        whole = ~writes | bus.strobes.all()
        # The latched half: of which register, and whether to write it.
        kept, kept_register = Signal(WORD_BITS), Signal(REGISTER_SPACE_BITS - 3)
        keeps, keeps_write = Signal(), Signal()
        goes_on = keeps & (keeps_write == writes) & (kept_register == register)
        address = Cat(0, 0, 0, register)
        m.d.comb += [
            self.s_axi_awaddr.eq(address),
            self.s_axi_araddr.eq(address),
            self.s_axi_wdata.eq(Cat(kept, bus.data)),
            self.s_axi_wstrb.eq(~0),
            bus.answer.eq(self.s_axi_rdata),
        ]
        aw_done, w_done = Signal(), Signal()
        with m.FSM():
            with m.State("IDLE"), m.If(bus.valid):
                m.d.sync += keeps.eq(0)
                with m.If(~whole | (high & ~goes_on)):
                    m.d.comb += [bus.ready.eq(1), self.refused.eq(1)]
                with m.Elif(high & writes):
                    m.next = "WRITE"
                with m.Elif(high):
                    m.d.comb += [bus.ready.eq(1), bus.answer.eq(kept)]
                with m.Elif(writes):
                    m.d.comb += bus.ready.eq(1)
                    m.d.sync += [
                        kept.eq(bus.data),
                        kept_register.eq(register),
                        keeps.eq(1),
                        keeps_write.eq(1),
                    ]
                with m.Else():
                    m.next = "READ"
            with m.State("WRITE"):
                m.d.comb += [self.s_axi_awvalid.eq(~aw_done), self.s_axi_wvalid.eq(~w_done)]
                with m.If(self.s_axi_awready):
                    m.d.sync += aw_done.eq(1)
                with m.If(self.s_axi_wready):
                    m.d.sync += w_done.eq(1)
                with m.If((aw_done | self.s_axi_awready) & (w_done | self.s_axi_wready)):
                    m.d.sync += [aw_done.eq(0), w_done.eq(0)]
                    m.next = "WRITTEN"
            with m.State("WRITTEN"):
                m.d.comb += self.s_axi_bready.eq(1)
                with m.If(self.s_axi_bvalid):
                    m.d.comb += [bus.ready.eq(1), self.refused.eq(self.s_axi_bresp[1])]
                    m.next = "IDLE"
            with m.State("READ"):
                m.d.comb += self.s_axi_arvalid.eq(1)
                with m.If(self.s_axi_arready):
                    m.next = "ANSWER"
            with m.State("ANSWER"):
                m.d.comb += self.s_axi_rready.eq(1)
                with m.If(self.s_axi_rvalid):
                    m.d.comb += [bus.ready.eq(1), self.refused.eq(self.s_axi_rresp[1])]
                    m.d.sync += [
                        kept.eq(self.s_axi_rdata[WORD_BITS:]),
                        kept_register.eq(register),
                        keeps.eq(1),
                        keeps_write.eq(0),
                    ]
                    m.next = "IDLE"
        return m
