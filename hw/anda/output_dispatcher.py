"""Results on their way out of the array, row by row."""

from itertools import pairwise

from amaranth import Module, Signal
from amaranth.lib import data, stream, wiring
from amaranth.lib.wiring import In, Out

from tilewright.golden.params.anda import AndaMxuParams
from tilewright.golden.params.arith import FloatConvertParams
from tilewright.golden.params.formats import FP16, FP32
from tilewright.golden.params.pe import PeArrayParams
from tilewright.hw.arith.float_convert import FloatConvert
from tilewright.hw.unit import payload_layout


class OutputDispatcher(wiring.Component):
    """Takes a whole tile of fp32 sums at once and gives it as fp16, a row a cycle.

    A tile is taken in the cycle in which ``offered`` and ``room`` are 1; there is room when the
    last row of the tile before leaves, or, ``pipelined``, a cycle later. Rows move up towards the
    output, so that one row of converters serves all.
    """

    def __init__(self, params: AndaMxuParams | PeArrayParams):
        self.params = params
        row = data.ArrayLayout(FP32.bits, params.columns)
        super().__init__(
            {
                "offered": In(1),
                "room": Out(1),
                "sums": In(data.ArrayLayout(row, params.rows)),
                "o": Out(stream.Signature(payload_layout(params.outputs[0]))),
            }
        )

    def elaborate(self, platform: object) -> Module:
        m = Module()
        p = self.params
        row = self.sums.shape().elem_shape
        held = [Signal(row, name=f"row{k}", reset_less=True) for k in range(p.rows)]
        gives = Signal()
        convert = FloatConvert(FloatConvertParams(a=FP32, out=FP16, lanes=p.columns))
        m.submodules.convert = convert
        m.d.comb += [
            gives.eq(self.o.valid & self.o.ready),
            # Pipelined: whether rows are taken does not reach the array in the same cycle.
            self.room.eq(~self.o.valid if p.pipelined else ~self.o.valid | (gives & self.o.p.last)),
            convert.i.valid.eq(1),
            convert.o.ready.eq(1),
            convert.i.p.a.eq(held[0]),
            self.o.p.values.eq(convert.o.p.y),
            self.o.p.last.eq(self.o.p.row == p.rows - 1),
        ]
        with m.If(self.offered & self.room):
            m.d.sync += [self.o.valid.eq(1), self.o.p.row.eq(0)]
            m.d.sync += [old.eq(new) for old, new in zip(held, self.sums, strict=True)]
        with m.Elif(gives):
            m.d.sync += [self.o.valid.eq(~self.o.p.last), self.o.p.row.eq(self.o.p.row + 1)]
            m.d.sync += [old.eq(new) for old, new in pairwise(held)]
        return m
