"""One stream to many."""

from amaranth import Cat, Module, Signal

from tilewright.golden.params.stream import ForkParams
from tilewright.hw.unit import Unit

__all__ = ["Fork"]


class Fork(Unit[ForkParams]):
    """Offers every word to every output at once; each takes it when it likes, exactly once.

    The word leaves the input together with the last output to take it: latency 0, one word a
    cycle.
    """

    def elaborate(self, platform: object) -> Module:
        m = Module()
        outputs = [getattr(self, port.name) for port in self.params.outputs]
        served = Signal(len(outputs))  # outputs that already have the word now at the input
        taken = served | Cat(o.ready for o in outputs)
        stays = self.i.valid & ~self.i.ready
        m.d.comb += self.i.ready.eq(taken.all())
        m.d.sync += served.eq(taken & stays.replicate(len(outputs)))
        for k, o in enumerate(outputs):
            m.d.comb += [o.valid.eq(self.i.valid & ~served[k]), o.p.data.eq(self.i.p.data)]
        return m
