"""Register slice: no combinational path from one side to the other."""

from amaranth import Module, Signal

from hw.unit import Unit

__all__ = ["RegisterSlice"]


class RegisterSlice(Unit):
    """Payload, valid and ready each leave a register: latency 1, one word a cycle.

    ``ready`` cannot follow the consumer within the cycle, so a second place takes the word that
    arrives in the cycle the consumer starts to wait.
    """

    def elaborate(self, platform):
        m = Module()
        word = Signal(self.params.width)
        spare = Signal(self.params.width)
        valid = Signal()
        room = Signal(init=1)
        m.d.comb += [self.o.p.data.eq(word), self.o.valid.eq(valid), self.i.ready.eq(room)]
        with m.If(~valid | self.o.ready):
            with m.If(room):
                m.d.sync += [word.eq(self.i.p.data), valid.eq(self.i.valid)]
            with m.Else():
                m.d.sync += [word.eq(spare), room.eq(1)]
        with m.Elif(room & self.i.valid):
            m.d.sync += [spare.eq(self.i.p.data), room.eq(0)]
        return m
