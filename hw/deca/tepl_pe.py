"""The processing element with its TEPL unit, as a core sees it."""

from amaranth import Module
from amaranth.lib.wiring import connect, flipped

from tilewright.golden.params.deca import DecaTeplParams
from tilewright.hw.deca.pe import DecaPE
from tilewright.hw.deca.tepl import TeplUnit
from tilewright.hw.unit import Unit

JOINED = ("command0", "command1", "done0", "done1", "read_request", "read_response")


class DecaTepl(Unit[DecaTeplParams]):
    """:class:`tilewright.hw.deca.tepl.TeplUnit` and :class:`tilewright.hw.deca.pe.DecaPE`, joined.

    Tiles are started by TEPLs alone, so the loaders' registers must be left alone: a tile that
    they start would be taken for that of a TEPL. All other registers are the core's.

    Timing: that of its two parts, which share no path but these streams.
    """

    def elaborate(self, platform: object) -> Module:
        m = Module()
        m.submodules.tepl = tepl = TeplUnit(self.params)
        # A prefetcher of one loader sees its commands, as only then the loader is known.
        foretold = self.params.prefetchers == 1
        m.submodules.pe = pe = DecaPE(self.params.pe, foretold=foretold)
        for name in JOINED:
            connect(m, getattr(tepl, name), getattr(pe, name))
        for port in (*self.params.tepl_inputs, *self.params.tepl_outputs):
            connect(m, flipped(getattr(self, port.name)), getattr(tepl, port.name))
        for name in ("mem_request", "mem_response", "mmio_request", "mmio_response"):
            connect(m, flipped(getattr(self, name)), getattr(pe, name))
        if foretold:
            connect(m, tepl.hint, flipped(pe.hint))
        m.d.comb += [pe.squash.eq(tepl.squash), tepl.open.eq(pe.open), tepl.rows.eq(pe.rows)]
        return m
