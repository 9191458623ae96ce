"""The data packager: counts a group's words and hands them on as a stream."""

from amaranth import Module, Signal
from amaranth.lib import wiring
from amaranth.lib.wiring import In, Out

from tilewright.golden.params.anda import MANTISSA_FIELD_BITS


class Packager(wiring.Component):
    """Control of any number of lanes in step: M + 1 words per set of groups, without a gap.

    ``load``: lanes take the groups offered now. ``step``: the consumer takes the present words.
    The next groups are taken in the cycle in which the last word leaves.
    """

    mantissa: In(MANTISSA_FIELD_BITS)
    offered: In(1)
    wanted: In(1)
    load: Out(1)
    step: Out(1)
    accepting: Out(1)
    valid: Out(1)
    first: Out(1)
    last: Out(1)

    def elaborate(self, platform: object) -> Module:
        m = Module()
        planes = Signal(MANTISSA_FIELD_BITS)  # mantissa words still due after this one
        m.d.comb += [
            self.last.eq(planes == 0),
            self.step.eq(self.valid & self.wanted),
            self.accepting.eq(~self.valid | (self.step & self.last)),
            self.load.eq(self.accepting & self.offered),
        ]
        with m.If(self.load):
            m.d.sync += [self.valid.eq(1), self.first.eq(1), planes.eq(self.mantissa)]
        with m.Elif(self.step):
            m.d.sync += [self.valid.eq(~self.last), self.first.eq(0), planes.eq(planes - 1)]
        return m
