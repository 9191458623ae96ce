"""Aligned mantissas times one bit of every weight at a time."""

from amaranth import Cat, Module, Mux, Signal, Value
from amaranth.lib import data

from tilewright.golden.params.pe import IfpuParams
from tilewright.hw.arith.adder_tree import styled_sum
from tilewright.hw.arith.float_unpack import wire
from tilewright.hw.pe.aligned import AlignedElement


class Ifpu(AlignedElement[IfpuParams]):
    """Dot product of aligned activations and scaled integer weights, bit-serial in the weight.

    Numerics: :class:`tilewright.golden.params.pe.IfpuParams`.
    Timing: a beat a cycle, latency ``stages``; by default 4: group sum, scaling, sum, rounding to
    fp16.
    """

    def hold(self, m: Module, held: data.View) -> list:
        """Activations come with the highest bits of their weights and stay for the others."""
        given, bits = self.i.p, self.params.weight_bits
        arriving = Signal(range(bits))
        with m.If(arriving == 0):
            m.d.sync += held.activation.eq(given.activation)
        others = ("weight", "exponent", "scale", "group_end", "last")
        return [
            arriving.eq(Mux(arriving == bits - 1, 0, arriving + 1)),
            *(held[name].eq(given[name]) for name in others),
        ]

    def datapath(self, m: Module, valid: Value) -> None:
        top = self.params.weight_bits - 1
        beat = self.beat
        place = Signal(range(top + 1), init=top)  # of the bits that this beat brings
        with m.If(self.step & valid):
            m.d.sync += place.eq(Mux(place == 0, top, place - 1))
        rows, ones = [], []
        for activation, bit in zip(beat.activation, beat.weight, strict=True):
            mantissa = activation[:-1]
            # The top bit of two's complement counts negative.
            sign = activation[-1] ^ (place == top)
            # One's complement; the ones that are missing are summed separately.
            row = Cat(mantissa ^ sign.replicate(len(mantissa)), sign)
            rows.append((row & bit.replicate(len(row))).as_signed())
            ones.append(sign & bit)
        adder = self.params.adder
        plane = wire(m, "plane", styled_sum(rows, adder, m) + styled_sum(ones, adder, m))
        self.give_group_sums(
            m, valid, plane << place, beat.group_end, beat.exponent, beat.scale, beat.last
        )
