"""First in, first out."""

from amaranth import Module, Mux, Shape, ShapeLike, Signal, Value
from amaranth.lib import stream, wiring
from amaranth.lib.memory import Memory
from amaranth.lib.wiring import In, Out

from tilewright.golden.params.stream import QueueParams
from tilewright.hw.unit import payload_layout


class Queue(wiring.Component):
    """Keeps up to ``depth`` payloads of any shape in order.

    Ready and valid are functions of registers alone, so queues cut handshake paths; in return a
    full queue takes its next payload the cycle after it gave one. ``level`` is how many payloads
    are inside; the one at the head is read from ``words`` combinationally.

    Timing: latency 1, one payload a cycle (every second cycle with a depth of 1).
    """

    def __init__(self, shape: ShapeLike, depth: int):
        super().__init__({"i": In(stream.Signature(shape)), "o": Out(stream.Signature(shape))})
        self.depth = depth
        self.level = Signal(range(depth + 1))
        # Plain bits: ports with fields would add a wire for each of them to the RTLIL.
        self.words = Memory(shape=Shape.cast(shape).width, depth=depth, init=[])
        self.write = self.words.write_port()
        self.read = self.words.read_port(domain="comb")

    def elaborate(self, platform: object) -> Module:
        m = Module()
        m.submodules.words = self.words
        depth = self.depth
        put, get = self.i.valid & self.i.ready, self.o.valid & self.o.ready
        m.d.comb += [
            self.i.ready.eq(self.level != depth),
            self.o.valid.eq(self.level != 0),
            Value.cast(self.o.payload).eq(self.read.data),
            self.write.data.eq(Value.cast(self.i.payload)),
            self.write.en.eq(put),
        ]
        m.d.sync += self.level.eq(self.level + put - get)
        for moves, place in ((put, self.write.addr), (get, self.read.addr)):
            with m.If(moves):
                m.d.sync += place.eq(Mux(place == depth - 1, 0, place + 1))
        return m


class QueueBlock(Queue):
    """The queue of the catalogue: words of ``params.width`` bits."""

    def __init__(self, params: QueueParams):
        self.params = params
        super().__init__(payload_layout(params.inputs[0]), params.depth)
