"""First in, first out."""

from amaranth import Module, Mux, Signal
from amaranth.lib.memory import Memory

from tilewright.hw.unit import Unit

__all__ = ["Queue"]


class Queue(Unit):
    """Keeps up to ``params.depth`` words in order: latency 1, one word a cycle (depth 1: every 2).

    Ready and valid are functions of registers alone, so queues cut handshake paths; in return a
    full queue takes its next word the cycle after it gave one. ``level`` is how many words are
    inside; the one at the head is read from ``words`` combinationally.
    """

    def __init__(self, params):
        super().__init__(params)
        self.level = Signal(range(params.depth + 1))
        self.words = Memory(shape=params.width, depth=params.depth, init=[])
        self.write = self.words.write_port()
        self.read = self.words.read_port(domain="comb")

    def elaborate(self, platform):
        m = Module()
        m.submodules.words = self.words
        depth = self.params.depth
        put, get = self.i.valid & self.i.ready, self.o.valid & self.o.ready
        m.d.comb += [
            self.i.ready.eq(self.level != depth),
            self.o.valid.eq(self.level != 0),
            self.o.p.data.eq(self.read.data),
            self.write.data.eq(self.i.p.data),
            self.write.en.eq(put),
        ]
        m.d.sync += self.level.eq(self.level + put - get)
        for moves, place in ((put, self.write.addr), (get, self.read.addr)):
            with m.If(moves):
                m.d.sync += place.eq(Mux(place == depth - 1, 0, place + 1))
        return m
