"""First in, first out."""

from amaranth import Module, Mux, Signal
from amaranth.lib import memory
from amaranth.lib.memory import MemoryData

from hw.unit import Unit

__all__ = ["Queue"]


class Queue(Unit):
    """Keeps up to ``params.depth`` words in order: latency 1, one word a cycle (depth 1: every 2).

    Ready and valid are functions of registers alone, so queues cut handshake paths; in return a
    full queue takes its next word the cycle after it gave one. The word at the head is read
    combinationally. ``level`` is how many words are inside.
    """

    def __init__(self, params):
        super().__init__(params)
        self.level = Signal(range(params.depth + 1))

    def elaborate(self, platform):
        m = Module()
        depth = self.params.depth
        m.submodules.words = words = memory.Memory(
            MemoryData(shape=self.params.width, depth=depth, init=[])
        )
        write, read = words.write_port(), words.read_port(domain="comb")
        put, get = self.i.valid & self.i.ready, self.o.valid & self.o.ready

        def following(place):
            return Mux(place == depth - 1, 0, place + 1)

        m.d.comb += [
            self.i.ready.eq(self.level != depth),
            self.o.valid.eq(self.level != 0),
            self.o.p.data.eq(read.data),
            write.data.eq(self.i.p.data),
            write.en.eq(put),
        ]
        with m.If(put):
            m.d.sync += write.addr.eq(following(write.addr))
        with m.If(get):
            m.d.sync += read.addr.eq(following(read.addr))
        m.d.sync += self.level.eq(self.level + put - get)
        return m
