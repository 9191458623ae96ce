"""Window logic of one loader: from the bitmask to the steps of its vector operations."""

from amaranth import Cat, Module, Mux, Signal
from amaranth.lib import data, stream, wiring
from amaranth.lib.wiring import In, Out

from golden.params.arith import PrefixStyle
from golden.params.deca import DecaParams
from hw.arith.prefix_sum import prefix_level, prefix_network
from hw.deca.layout import CONFIG, chunk_index_bits, window_layout

__all__ = ["Window"]


class Window(wiring.Component):
    """Cuts a tile into vector operations and those into steps of at most Lq codes.

    While ``run`` is set it takes a chunk of the bitmask per vector operation (a dense tile has
    every bit set and takes none), counts its bits, finds how far every element lies below its lane, and offers the steps at ``o``: max(1, ceil(window / Lq)) of them. ``clear`` forgets
    everything; a tile begins with the first cycle of ``run`` after it.

    Timing: three registers from the bitmask to ``o``; one step a cycle.
    """

    def __init__(self, params: DecaParams):
        self.params = params
        super().__init__(
            {
                "run": In(1),
                "clear": In(1),
                "config": In(CONFIG),  # holds still while ``run`` is set
                "mask": In(stream.Signature(data.StructLayout({"bits": params.lanes, "error": 1}))),
                "o": Out(stream.Signature(window_layout(params))),
            }
        )

    def elaborate(self, platform):
        m = Module()
        p = self.params

        m_valid, c_valid = Signal(), Signal()
        m_ready, c_ready, o_ready = Signal(), Signal(), Signal()

        # m_: the bitmask of one chunk.
        m_mask, m_error = Signal(p.lanes), Signal()
        m_chunk, m_final = Signal(chunk_index_bits(p)), Signal()
        chunk, ended = Signal(chunk_index_bits(p)), Signal()
        final = Signal()
        last_chunk = Mux(
            self.config.int8, p.line_bytes * 16 // p.lanes - 1, p.line_bytes * 8 // p.lanes - 1
        )
        m.d.comb += final.eq(chunk == last_chunk)
        m.d.comb += m_ready.eq(~m_valid | c_ready)
        offered = self.run & ~ended & (self.mask.valid | ~self.config.sparse)
        m.d.comb += self.mask.ready.eq(m_ready & self.run & ~ended & self.config.sparse)
        with m.If(m_ready):
            m.d.sync += [
                m_valid.eq(offered),
                m_mask.eq(self.mask.p.bits | (~self.config.sparse).replicate(p.lanes)),
                m_error.eq(self.mask.p.error & self.config.sparse),
                m_chunk.eq(chunk),
                m_final.eq(final),
            ]
            with m.If(offered):
                m.d.sync += [chunk.eq(chunk + 1), ended.eq(final)]

        # c_: how far each element moves up to its lane, and how many there are.
        clear = [~bit for bit in m_mask]
        for adders in prefix_network(PrefixStyle.SKLANSKY, p.lanes):
            clear = prefix_level(clear, adders)
        c_mask, c_error = Signal(p.lanes), Signal()
        c_chunk, c_final = Signal.like(m_chunk), Signal()
        c_distance = [Signal(range(p.lanes), name=f"c_distance{k}") for k in range(p.lanes)]
        c_count = Signal(range(p.lanes + 1))
        with m.If(c_ready):
            m.d.sync += [
                c_valid.eq(m_valid),
                c_mask.eq(m_mask),
                c_error.eq(m_error),
                c_chunk.eq(m_chunk),
                c_final.eq(m_final),
                c_count.eq(p.lanes - clear[-1]),
                *(far.eq(c) for far, c in zip(c_distance[1:], clear[:-1], strict=True)),
            ]

        # o: one step; the window shrinks by what each step reads.
        lookups, full_bits = self._lookups(m)
        step, rest = Signal(range(p.lanes)), Signal(range(p.lanes + 1))
        left = Signal(range(p.lanes + 1))
        last = Signal()
        m.d.comb += [
            left.eq(Mux(step == 0, c_count, rest)),
            last.eq(left <= lookups),
            o_ready.eq(~self.o.valid | self.o.ready),
            c_ready.eq(~c_valid | (o_ready & last)),
        ]
        with m.If(o_ready):
            m.d.sync += [
                self.o.valid.eq(c_valid),
                self.o.p.bits.eq(Mux(last, left * self.config.code_bits, full_bits)),
                self.o.p.step.eq(step),
                self.o.p.last.eq(last),
                self.o.p.final.eq(last & c_final),
                self.o.p.chunk.eq(c_chunk),
                self.o.p.mask.eq(c_mask),
                self.o.p.distance.eq(Cat(c_distance)),
                self.o.p.error.eq(c_error),
            ]
            with m.If(c_valid):
                m.d.sync += [step.eq(Mux(last, 0, step + 1)), rest.eq(left - lookups)]

        with m.If(self.clear):
            m.d.sync += [m_valid.eq(0), c_valid.eq(0), self.o.valid.eq(0)]
            m.d.sync += [chunk.eq(0), ended.eq(0), step.eq(0)]
        return m

    def _lookups(self, m) -> tuple[Signal, Signal]:
        """Codes that one cycle looks up, and their bits; from the configuration, registered."""
        p = self.params
        lookups = Signal(range(p.lanes + 1))
        bits = Signal(range(p.line_bits + 1))
        with m.Switch(self.config.code_bits):
            for q in (*range(1, 9), 16):
                with m.Case(q):
                    m.d.sync += [lookups.eq(p.lookups(q)), bits.eq(p.lookups(q) * q)]
        return lookups, bits
