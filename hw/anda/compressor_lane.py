"""One lane of the bit-plane compressor."""

from amaranth import Cat, Module
from amaranth.lib import data, wiring
from amaranth.lib.wiring import In, Out

from tilewright.golden.params.anda import AndaCompressorLaneParams
from tilewright.golden.params.formats import FP16
from tilewright.hw.anda.aligner import Aligner
from tilewright.hw.anda.field_extractor import extract
from tilewright.hw.anda.max_exponent import largest
from tilewright.hw.anda.packager import Packager
from tilewright.hw.unit import Unit


def lane_signature(group: int) -> wiring.Signature:
    """Ports of :class:`Lane`."""
    return wiring.Signature(
        {
            "load": In(1),
            "step": In(1),
            "first": In(1),
            "values": In(data.ArrayLayout(FP16.bits, group)),
            "word": Out(group),
            "exponent": Out(FP16.exponent_bits),
            "saturated": Out(1),
        }
    )


class Lane(wiring.Component):
    """A group of fp16 values to plane words, under the control of a ``Packager``.

    Numerics: :func:`tilewright.golden.bfp.encode` with saturation. ``exponent`` and ``saturated``
    (an infinity or NaN was among the values) hold as long as the group does.
    """

    def __init__(self, group: int):
        self.group = group
        super().__init__(lane_signature(group))

    def elaborate(self, platform: object) -> Module:
        m = Module()
        fields = [extract(value) for value in self.values]
        m.submodules.aligner = aligner = Aligner(self.group)
        shared = largest(m, [f.exponent for f in fields])
        m.d.comb += [
            aligner.load.eq(self.load),
            aligner.step.eq(self.step),
            aligner.first.eq(self.first),
            aligner.signs.eq(Cat(f.sign for f in fields)),
            aligner.exponents.eq(Cat(f.exponent for f in fields)),
            aligner.significands.eq(Cat(f.significand for f in fields)),
            aligner.shared.eq(shared),
            self.word.eq(aligner.word),
        ]
        with m.If(self.load):
            m.d.sync += [
                self.exponent.eq(shared),
                self.saturated.eq(Cat(f.special for f in fields).any()),
            ]
        return m


class CompressorLane(Unit[AndaCompressorLaneParams]):
    """A lane with its own control: latency 1, then M + 1 words per group, without a gap."""

    def elaborate(self, platform: object) -> Module:
        m = Module()
        m.submodules.packager = packager = Packager()
        m.submodules.lane = lane = Lane(self.params.group)
        m.d.comb += [
            packager.mantissa.eq(self.i.p.mantissa),
            packager.offered.eq(self.i.valid),
            packager.wanted.eq(self.o.ready),
            self.i.ready.eq(packager.accepting),
            lane.load.eq(packager.load),
            lane.step.eq(packager.step),
            lane.first.eq(packager.first),
            lane.values.eq(self.i.p.values),
            self.o.valid.eq(packager.valid),
            self.o.p.first.eq(packager.first),
            self.o.p.last.eq(packager.last),
            self.o.p.word.eq(lane.word),
            self.o.p.exponent.eq(lane.exponent),
            self.o.p.saturated.eq(lane.saturated),
        ]
        return m
