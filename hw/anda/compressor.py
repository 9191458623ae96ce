"""The bit-plane compressor: groups of fp16 values to Anda planes."""

from amaranth import Cat, Module

from tilewright.golden.params.anda import AndaCompressorParams
from tilewright.hw.anda.compressor_lane import Lane, lane_signature
from tilewright.hw.anda.packager import Packager
from tilewright.hw.shared import Shared
from tilewright.hw.unit import Unit


class Compressor(Unit[AndaCompressorParams]):
    """``params.lanes`` lanes in step under one packager.

    Numerics: :func:`tilewright.golden.bfp.encode` with saturation, planes as
    :mod:`tilewright.golden.planes` has them.
    Timing: latency 1, then one beat a cycle, M + 1 per set of groups; the next set is taken in
    the cycle in which the last beat leaves.
    """

    def elaborate(self, platform: object) -> Module:
        m = Module()
        group = self.params.group
        m.submodules.packager = packager = Packager()
        signature = lane_signature(group)
        lanes = [
            Shared(f"{self.params.slug}_lane", signature, lambda: Lane(group))
            for _ in range(self.params.lanes)
        ]
        for k, lane in enumerate(lanes):
            m.submodules[f"lane{k}"] = lane
            m.d.comb += [
                lane.load.eq(packager.load),
                lane.step.eq(packager.step),
                lane.first.eq(packager.first),
                lane.values.eq(
                    self.i.p.values.as_value().word_select(k, len(lane.values.as_value()))
                ),
            ]
        m.d.comb += [
            packager.mantissa.eq(self.i.p.mantissa),
            packager.offered.eq(self.i.valid),
            packager.wanted.eq(self.o.ready),
            self.i.ready.eq(packager.accepting),
            self.o.valid.eq(packager.valid),
            self.o.p.first.eq(packager.first),
            self.o.p.last.eq(packager.last),
            self.o.p.words.eq(Cat(lane.word for lane in lanes)),
            self.o.p.exponents.eq(Cat(lane.exponent for lane in lanes)),
            self.o.p.saturated.eq(Cat(lane.saturated for lane in lanes).any()),
        ]
        return m
