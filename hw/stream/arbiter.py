"""Round-robin merge."""

from functools import reduce
from operator import or_

from amaranth import Cat, Module, Mux, Signal, Value

from tilewright.golden.params.stream import ArbiterParams
from tilewright.hw.unit import Unit


def lowest_set(value: Value) -> Value:
    """``value`` with all but its lowest set bit cleared."""
    return Cat(bit & ~value[:k].any() for k, bit in enumerate(value))


class Arbiter(Unit[ArbiterParams]):
    """One word a cycle from whichever input's turn it is, tagged with its source: latency 0.

    The turn goes round: an input that waits sees every other input served at most once. A word
    once offered stays offered until taken, whatever arrives meanwhile. ``turn`` has a bit set for
    the input whose turn it is and all those above it; none set is the same as all.
    """

    def __init__(self, params: ArbiterParams):
        super().__init__(params)
        self.turn = Signal(params.ways)

    def elaborate(self, platform: object) -> Module:
        m = Module()
        inputs = [getattr(self, port.name) for port in self.params.inputs]
        ways = len(inputs)
        requests, first, grant = Signal(ways), Signal(ways), Signal(ways)
        m.d.comb += [
            requests.eq(Cat(i.valid for i in inputs)),
            first.eq(requests & self.turn),
            grant.eq(Mux(first.any(), lowest_set(first), lowest_set(requests))),
            self.o.valid.eq(requests.any()),
            self.o.p.data.eq(
                reduce(or_, (Mux(grant[k], i.p.data, 0) for k, i in enumerate(inputs)))
            ),
            self.o.p.source.eq(reduce(or_, (Mux(grant[k], k, 0) for k in range(ways)))),
        ]
        m.d.comb += [i.ready.eq(grant[k] & self.o.ready) for k, i in enumerate(inputs)]
        # A word that must wait keeps the turn, hence stays chosen; one that goes passes it on.
        upwards = Cat(grant[: k + 1].any() for k in range(ways))
        with m.If(self.o.valid):
            m.d.sync += self.turn.eq(Mux(self.o.ready, upwards & ~grant, upwards))
        return m
