"""Register slice: no combinational path from one side to the other."""

from amaranth import Module, Signal

from tilewright.hw.unit import Unit

__all__ = ["RegisterSlice"]


class RegisterSlice(Unit):
    """Payload, valid and ready each leave a register: latency 1, one word a cycle.

    ``ready`` cannot follow the consumer within the cycle, so ``spare`` takes the word that arrives
    in the cycle the consumer starts to wait; ``word`` is the one on offer.
    """

    def __init__(self, params):
        super().__init__(params)
        self.word = Signal(params.width, reset_less=True)
        self.spare = Signal(params.width, reset_less=True)

    def elaborate(self, platform):
        m = Module()
        valid = Signal()
        room = Signal(init=1)  # nothing in the spare place
        m.d.comb += [self.o.p.data.eq(self.word), self.o.valid.eq(valid), self.i.ready.eq(room)]
        with m.If(~valid | self.o.ready):
            with m.If(room):
                m.d.sync += [self.word.eq(self.i.p.data), valid.eq(self.i.valid)]
            with m.Else():
                m.d.sync += [self.word.eq(self.spare), room.eq(1)]
        with m.Elif(room & self.i.valid):
            m.d.sync += [self.spare.eq(self.i.p.data), room.eq(0)]
        return m
