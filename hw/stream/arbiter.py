"""Round-robin merge."""

from amaranth import Cat, Module, Mux, Signal, Value

from hw.unit import Unit

__all__ = ["Arbiter", "lowest_set"]


def lowest_set(value: Value) -> Value:
    """``value`` with all but its lowest set bit cleared."""
    return Cat(bit & ~value[:k].any() for k, bit in enumerate(value))


class Arbiter(Unit):
    """One word a cycle from whichever input's turn it is, tagged with its source: latency 0.

    The turn goes round: an input that waits sees every other input served at most once. A word
    once offered stays offered until taken, whatever arrives meanwhile.
    """

    def elaborate(self, platform):
        m = Module()
        inputs = [getattr(self, port.name) for port in self.params.inputs]
        ways = len(inputs)
        requests, first, grant = Signal(ways), Signal(ways), Signal(ways)
        turn = Signal(
            ways, init=(1 << ways) - 1
        )  # set for the inputs from the one whose turn it is upwards
        m.d.comb += [
            requests.eq(Cat(i.valid for i in inputs)),
            first.eq(requests & turn),
            grant.eq(Mux(first.any(), lowest_set(first), lowest_set(requests))),
            self.o.valid.eq(requests.any()),
        ]
        for k, i in enumerate(inputs):
            m.d.comb += i.ready.eq(grant[k] & self.o.ready)
            with m.If(grant[k]):
                m.d.comb += [self.o.p.data.eq(i.p.data), self.o.p.source.eq(k)]
        # A word that must wait keeps the turn, hence stays chosen; one that goes passes it on.
        upwards = Cat(grant[: k + 1].any() for k in range(ways))
        with m.If(self.o.valid):
            m.d.sync += turn.eq(Mux(self.o.ready, upwards & ~grant, upwards))
        return m
