"""Weights on their way to the columns of APUs, double-buffered."""

from amaranth import Cat, Module, Signal
from amaranth.lib import data, stream, wiring
from amaranth.lib.wiring import In, Out

from tilewright.golden.params.anda import AndaMxuParams
from tilewright.golden.params.formats import FP16
from tilewright.hw.unit import payload_layout


class WeightDispatcher(wiring.Component):
    """Collects a group's weight planes beat by beat while the array uses the group before.

    ``valid``: ``weights`` are those of the present group, for every row of each column; ``take``
    says that the group is over. ``scales`` are those of the last group that is over.
    """

    def __init__(self, params: AndaMxuParams):
        self.params = params
        weights = data.ArrayLayout(params.weight_bits, params.group)
        super().__init__(
            {
                "i": In(stream.Signature(payload_layout(params.inputs[1]))),
                "take": In(1),
                "valid": Out(1),
                "weights": Out(data.ArrayLayout(weights, params.columns)),
                "scales": Out(data.ArrayLayout(FP16.bits, params.columns)),
            }
        )

    def elaborate(self, platform: object) -> Module:
        m = Module()
        p = self.params
        beats = range(p.weight_beats)
        beat = self.i.p.planes.shape()
        coming = [Signal(beat, name=f"coming{k}", reset_less=True) for k in beats]
        present = [Signal(beat, name=f"present{k}", reset_less=True) for k in beats]
        coming_scales, present_scales, last_scales = (
            Signal(self.scales.shape(), name=f"{name}_scales", reset_less=True)
            for name in ("coming", "present", "last")
        )
        count = Signal(range(p.weight_beats + 1))  # beats of the next group
        complete, moves = Signal(), Signal()
        m.d.comb += [
            complete.eq(count == p.weight_beats),
            moves.eq(complete & (~self.valid | self.take)),
            self.i.ready.eq(~complete | moves),
            self.scales.eq(last_scales),
        ]
        with m.If(self.i.valid & self.i.ready):
            m.d.sync += [
                old.eq(new) for old, new in zip(coming, [*coming[1:], self.i.p.planes], strict=True)
            ]
            with m.If(complete | (count == 0)):
                m.d.sync += [coming_scales.eq(self.i.p.scales), count.eq(1)]
            with m.Else():
                m.d.sync += count.eq(count + 1)
        with m.Elif(moves):
            m.d.sync += count.eq(0)
        with m.If(moves):
            m.d.sync += [new.eq(old) for old, new in zip(coming, present, strict=True)]
            m.d.sync += [present_scales.eq(coming_scales), self.valid.eq(1)]
        with m.Elif(self.take):
            m.d.sync += self.valid.eq(0)
        with m.If(self.take):
            m.d.sync += last_scales.eq(present_scales)
        # Planes in order of arrival, the sign plane first: (beat, plane of the beat, column).
        planes = [plane for held in present for plane in held]
        for column in range(p.columns):
            own = planes[column :: p.columns][::-1]
            weights = self.weights[column]
            m.d.comb += [weights[k].eq(Cat(plane[k] for plane in own)) for k in range(p.group)]
        return m
