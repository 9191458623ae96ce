"""Reads a byte stream that lies in memory lines, in pieces of any length and alignment."""

from amaranth import Cat, Module, Mux, Signal
from amaranth.lib import data, stream, wiring
from amaranth.lib.wiring import In, Out

__all__ = ["LineReader"]


class LineReader(wiring.Component):
    """A window over the line in use and the one behind it.

    ``need`` granules lie from the read position on; ``available`` tells that their lines are here,
    ``error`` that one of them came with a bus error, and ``window`` shows them, shifted down by
    whole words so that the first granule starts at granule ``offset``. ``take`` moves on by
    ``need``. ``start`` puts the position to granule ``at`` of the next line and forgets all else.

    Timing: a line is in use the cycle after it arrives; up to a line is taken every cycle.

    Parameters
    ----------
    line_bits : width of a line
    granule_bits : smallest unit of length and alignment
    word_bits : the window is aligned to this; ``offset`` counts the granules that remain
    window_bits : how much of the stream the window shows
    """

    def __init__(self, *, line_bits: int, granule_bits: int, word_bits: int, window_bits: int):
        self.line_bits, self.granule_bits = line_bits, granule_bits
        self.word_bits, self.window_bits = word_bits, window_bits
        self.granules = line_bits // granule_bits
        line = data.StructLayout({"data": line_bits, "error": 1})
        super().__init__(
            {
                "i": In(stream.Signature(line)),
                "start": In(1),
                "at": In(range(self.granules)),
                "need": In(range(self.granules + 1)),
                "take": In(1),
                "available": Out(1),
                "error": Out(1),
                "window": Out(window_bits),
                "offset": Out(range(max(2, word_bits // granule_bits))),
            }
        )

    def elaborate(self, platform):
        m = Module()
        line = Signal(self.line_bits)
        line_error = Signal()
        have = Signal()
        position = Signal(range(self.granules))

        end = Signal(range(2 * self.granules))
        m.d.comb += end.eq(position + self.need)
        reaches_end = end[-1]  # the line is used up
        crosses = Signal()
        m.d.comb += crosses.eq(reaches_end & end[:-1].any())
        m.d.comb += [
            self.available.eq((self.need == 0) | (have & (~crosses | self.i.valid))),
            self.error.eq((self.need != 0) & ((have & line_error) | (crosses & self.i.p.error))),
        ]

        # Only whole words move here: the window spans what they leave uncovered.
        words = self.line_bits // self.word_bits
        word_granules = self.word_bits // self.granule_bits
        both = Signal(2 * self.line_bits)
        m.d.comb += both.eq(Cat(line, self.i.p.data))
        if word_granules > 1:
            m.d.comb += self.offset.eq(position[: (word_granules - 1).bit_length()])
        shown = both
        skip = position[(word_granules - 1).bit_length() :]
        for level in reversed(range((words - 1).bit_length())):
            step = self.word_bits << level
            below = self.word_bits * ((1 << level) - 1)  # what the lower levels may still skip
            rest = Signal(self.window_bits + below, name=f"skip{step}")
            m.d.comb += rest.eq(Mux(skip[level], shown[step:], shown))
            shown = rest
        m.d.comb += self.window.eq(shown)

        load = Signal()
        m.d.comb += load.eq(~have | (self.take & reaches_end))
        m.d.comb += self.i.ready.eq(load & ~self.start)
        with m.If(load):
            m.d.sync += [line.eq(self.i.p.data), line_error.eq(self.i.p.error)]
            m.d.sync += have.eq(self.i.valid)
        with m.If(self.take):
            m.d.sync += position.eq(end)
        with m.If(self.start):
            m.d.sync += [have.eq(0), position.eq(self.at)]
        return m
