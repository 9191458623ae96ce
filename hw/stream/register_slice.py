"""Register slice: no combinational path from one side to the other."""

from amaranth import Module, Shape, ShapeLike, Signal, Value
from amaranth.lib import stream, wiring
from amaranth.lib.wiring import In, Out

from tilewright.golden.params.stream import RegisterSliceParams
from tilewright.hw.unit import payload_layout


class RegisterSlice(wiring.Component):
    """Payloads of any shape; payload, valid and ready each leave a register.

    ``ready`` cannot follow the consumer within the cycle, so ``spare`` takes the payload that
    arrives in the cycle the consumer starts to wait; ``word`` is the one on offer.

    Timing: latency 1, one payload a cycle.
    """

    def __init__(self, shape: ShapeLike):
        super().__init__({"i": In(stream.Signature(shape)), "o": Out(stream.Signature(shape))})
        # Plain bits: signals with fields would add a wire for each of them to the RTLIL.
        width = Shape.cast(shape).width
        self.word = Signal(width, reset_less=True)
        self.spare = Signal(width, reset_less=True)

    def elaborate(self, platform: object) -> Module:
        m = Module()
        given, taken = Value.cast(self.i.payload), Value.cast(self.o.payload)
        valid = Signal()
        room = Signal(init=1)  # nothing in the spare place
        m.d.comb += [taken.eq(self.word), self.o.valid.eq(valid), self.i.ready.eq(room)]
        with m.If(~valid | self.o.ready):
            with m.If(room):
                m.d.sync += valid.eq(self.i.valid)
                with m.If(self.i.valid):  # an idle slice needs no clock
                    m.d.sync += self.word.eq(given)
            with m.Else():
                m.d.sync += [self.word.eq(self.spare), room.eq(1)]
        with m.Elif(room & self.i.valid):
            m.d.sync += [self.spare.eq(given), room.eq(0)]
        return m


class RegisterSliceBlock(RegisterSlice):
    """The register slice of the catalogue: words of ``params.width`` bits."""

    def __init__(self, params: RegisterSliceParams):
        self.params = params
        super().__init__(payload_layout(params.inputs[0]))
