"""Many streams to one, in step."""

from amaranth import Cat, Module

from tilewright.golden.params.stream import JoinParams
from tilewright.hw.unit import Unit

__all__ = ["Join"]


class Join(Unit[JoinParams]):
    """One word of every input, side by side, makes one output word: latency 0, one a cycle."""

    def elaborate(self, platform: object) -> Module:
        m = Module()
        inputs = [getattr(self, port.name) for port in self.params.inputs]
        m.d.comb += self.o.valid.eq(Cat(i.valid for i in inputs).all())
        for k, i in enumerate(inputs):
            m.d.comb += [i.ready.eq(self.o.valid & self.o.ready), self.o.p.data[k].eq(i.p.data)]
        return m
