"""Reads a byte stream that lies in memory lines, in pieces of any length and alignment."""

from amaranth import Cat, Module, Mux, Signal, Value
from amaranth.lib import data, stream, wiring
from amaranth.lib.wiring import In, Out

from tilewright.hw.stream.line_queue import line_layout


def cut_layout(line_bits: int, granule_bits: int, word_bits: int) -> data.StructLayout:
    """Where a piece lies: decided one stage ahead of the reader, so that it only has to look."""
    return data.StructLayout(
        {
            "offset": range(max(2, word_bits // granule_bits)),  # granules of the first word
            "skip": range(line_bits // word_bits),  # words before it
            "wanted": 1,  # the piece is not empty
            "crosses": 1,  # it goes on in the next line
            "ends": 1,  # the line is used up
        }
    )


def cut_at(
    layout: data.StructLayout, position: Value, need: Value
) -> tuple[dict[str, Value], Value]:
    """The piece of ``need`` granules at ``position`` of the line, and the position after it."""
    end = (position + need)[: len(position) + 1]
    offset_bits = len(position) - layout["skip"].width
    fields = {
        "offset": position[:offset_bits],
        "skip": position[offset_bits:],
        "wanted": need.any(),
        "crosses": end[-1] & end[:-1].any(),
        "ends": end[-1],
    }
    return fields, end[:-1]


class LineReader(wiring.Component):
    """Shows pieces of the line in use and the one after it, for one tile after the other.

    ``start`` begins a tile whose structure lies in the next ``lines`` lines. ``cut`` says where a
    piece lies. ``available``: its lines have arrived; ``error``: one of them has a
    bus error, and ``window`` shows it, shifted down by whole words: its first granule is granule
    ``cut.offset`` of the window. ``take`` moves on. ``drain`` gives up the tile's lines, also
    those still due; ``drained`` tells that none is left. ``clear`` forgets everything.

    Timing: a line is in use the cycle after it arrives; up to a line is taken every cycle.
    """

    def __init__(
        self, *, line_bits: int, granule_bits: int, word_bits: int, window_bits: int, lines: int
    ):
        self.line_bits, self.word_bits, self.window_bits = line_bits, word_bits, window_bits
        self.cut_layout = cut_layout(line_bits, granule_bits, word_bits)
        super().__init__(
            {
                "i": In(stream.Signature(line_layout(line_bits))),
                "start": In(1),
                "lines": In(range(lines + 1)),
                "cut": In(self.cut_layout),
                "take": In(1),
                "available": Out(1),
                "error": Out(1),
                "window": Out(window_bits),
                "drain": In(1),
                "drained": Out(1),
                "clear": In(1),
            }
        )

    def elaborate(self, platform: object) -> Module:
        m = Module()
        line = Signal(self.line_bits, reset_less=True)
        line_error = Signal(reset_less=True)
        have = Signal()
        left, more = Signal.like(self.lines), Signal()  # lines of this tile not yet seen
        cut = self.cut
        m.d.comb += [
            self.available.eq(~cut.wanted | (have & (~cut.crosses | self.i.valid))),
            self.error.eq(cut.wanted & ((have & line_error) | (cut.crosses & self.i.p.error))),
            self.drained.eq(~more),
        ]

        shown = Cat(line, self.i.p.data)
        for level in reversed(range(len(cut.skip))):
            step = self.word_bits << level
            below = self.word_bits * ((1 << level) - 1)  # what the lower levels may still skip
            rest = Signal(self.window_bits + below, name=f"skip{step}")
            m.d.comb += rest.eq(Mux(cut.skip[level], shown[step:], shown))
            shown = rest
        m.d.comb += self.window.eq(shown)

        load = Signal()
        m.d.comb += [
            load.eq(~have | (self.take & cut.ends)),
            self.i.ready.eq(more & (load | self.drain)),
        ]
        with m.If(load):
            m.d.sync += have.eq(self.i.valid & more)
        with m.If(load & self.i.valid):
            m.d.sync += [line.eq(self.i.p.data), line_error.eq(self.i.p.error)]
        with m.If(self.i.valid & self.i.ready):
            m.d.sync += [left.eq(left - 1), more.eq(left != 1)]
        with m.If(self.drain | self.start):
            m.d.sync += have.eq(0)
        with m.If(self.start):
            m.d.sync += [left.eq(self.lines), more.eq(self.lines != 0)]
        with m.If(self.clear):
            m.d.sync += [have.eq(0), more.eq(0)]
        return m
