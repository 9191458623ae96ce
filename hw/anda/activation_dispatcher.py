"""Activation planes on their way to the rows of APUs."""

from amaranth import Module, Mux, Signal
from amaranth.lib import data, wiring
from amaranth.lib.wiring import In, Out

from tilewright.golden.params.formats import FP16


class ActivationDispatcher(wiring.Component):
    """Keeps each row's sign word and exponent for a group and applies the signs to the planes.

    ``selected`` is what a row's APUs take: the sign word on the sign beat, a mantissa word XOR the
    sign word after it. ``group_exponents`` hold until the next sign word is taken.
    """

    def __init__(self, group: int, rows: int):
        planes = data.ArrayLayout(group, rows)
        exponents = data.ArrayLayout(FP16.exponent_bits, rows)
        super().__init__(
            {
                "take": In(1),
                "sign_beat": In(1),
                "planes": In(planes),
                "exponents": In(exponents),
                "selected": Out(planes),
                "group_exponents": Out(exponents),
            }
        )

    def elaborate(self, platform: object) -> Module:
        m = Module()
        signs = Signal(self.planes.shape(), reset_less=True)
        exponents = Signal(self.exponents.shape(), reset_less=True)
        m.d.comb += self.group_exponents.eq(exponents)
        for selected, plane, sign in zip(self.selected, self.planes, signs, strict=True):
            m.d.comb += selected.eq(plane ^ Mux(self.sign_beat, 0, sign))
        with m.If(self.take & self.sign_beat):
            m.d.sync += [signs.eq(self.planes), exponents.eq(self.exponents)]
        return m
