"""A host on a serial line as the master of a word bus."""

from amaranth import Cat, Module, Mux, Signal
from amaranth.lib import stream, wiring
from amaranth.lib.wiring import In, Out

from tilewright.hw.soc.word_bus import WORD_BITS, WORD_BUS, WORD_BYTES

READ, WRITE = b"R"[0], b"W"[0]
BYTE = 8


class SerialMaster(wiring.Component):
    """Accesses received as bytes (``i``) to words of ``bus``, answered as bytes (``o``).

    ``R`` and an address of four bytes is answered by the word, four bytes; ``W``, an address and a
    word by ``W`` when it is written. The lowest byte is always the first. Any other byte in place
    of ``R`` or ``W`` is ignored, so that eight of them synchronise both sides.
    """

    def __init__(self) -> None:
        super().__init__(
            {
                "i": In(stream.Signature(BYTE)),
                "o": Out(stream.Signature(BYTE)),
                "bus": Out(WORD_BUS),
            }
        )

    def elaborate(self, platform: object) -> Module:
        m = Module()
        bus = self.bus
        writes = Signal()
        given = Signal(2 * WORD_BITS)  # address and data; bytes enter at the top
        answer = Signal(WORD_BITS)
        left = Signal(range(2 * WORD_BYTES + 1))
        m.d.comb += [
            # A read sends its address alone, which is in the upper half.
            bus.address.eq(Mux(writes, given[:WORD_BITS], given[WORD_BITS:])),
            bus.data.eq(given[WORD_BITS:]),
            bus.strobes.eq(writes.replicate(WORD_BYTES)),
            self.o.payload.eq(answer[:BYTE]),
        ]
        with m.FSM():
            with m.State("COMMAND"):
                m.d.comb += self.i.ready.eq(1)
                is_write = self.i.payload == WRITE
                with m.If(self.i.valid & (is_write | (self.i.payload == READ))):
                    m.d.sync += [
                        writes.eq(is_write),
                        left.eq(Mux(is_write, 2 * WORD_BYTES, WORD_BYTES)),
                    ]
                    m.next = "GIVEN"
            with m.State("GIVEN"):
                m.d.comb += self.i.ready.eq(1)
                with m.If(self.i.valid):
                    m.d.sync += [given.eq(Cat(given[BYTE:], self.i.payload)), left.eq(left - 1)]
                    with m.If(left == 1):
                        m.next = "ACCESS"
            with m.State("ACCESS"):
                m.d.comb += bus.valid.eq(1)
                with m.If(bus.ready):
                    m.d.sync += [
                        answer.eq(Mux(writes, WRITE, bus.answer)),
                        left.eq(Mux(writes, 1, WORD_BYTES)),
                    ]
                    m.next = "ANSWER"
            with m.State("ANSWER"):
                m.d.comb += self.o.valid.eq(1)
                with m.If(self.o.ready):
                    m.d.sync += [answer.eq(answer >> BYTE), left.eq(left - 1)]
                    with m.If(left == 1):
                        m.next = "COMMAND"
        return m
