"""A group's exact sum as a float of the partial format."""

from types import SimpleNamespace

from amaranth import Module, Mux, signed
from amaranth.lib import wiring
from amaranth.lib.wiring import In, Out

from tilewright.golden.params.anda import MANTISSA_FIELD_BITS, MAX_MANTISSA_BITS, AndaNumerics
from tilewright.golden.params.arith import IEEE_RULES
from tilewright.golden.params.formats import FP16
from tilewright.hw.arith.float_round import Rounder
from tilewright.hw.arith.float_unpack import wire
from tilewright.hw.stream.pipeline import staged


class Normalise(wiring.Component):
    """``y`` = ``total`` * 2^(``exponent`` - 15 - (``mantissa`` - 1)), rounded once.

    Numerics: nearest even, subnormals kept, overflow to infinity; 0 is +0.
    Timing: combinational, or with ``registers``, which load in every cycle.
    """

    def __init__(self, numerics: AndaNumerics, registers: int = 0):
        self.numerics, self.registers = numerics, registers
        super().__init__(
            {
                "total": In(signed(numerics.group_sum_bits)),
                "exponent": In(FP16.exponent_bits),
                "mantissa": In(MANTISSA_FIELD_BITS),
                "y": Out(numerics.partial.bits),
            }
        )

    def elaborate(self, platform: object) -> Module:
        m = Module()
        fmt = self.numerics.partial
        width = self.numerics.group_sum_bits - 1  # the most negative sum never occurs
        # The exponent field that the top bit of the sum has, less exponent - mantissa.
        offset = width + fmt.bias - FP16.bias
        rounder = Rounder(
            fmt,
            IEEE_RULES,
            width=width,
            lowest=1 - MAX_MANTISSA_BITS + offset,
            highest=FP16.max_exponent + FP16.bias - 1 + offset,
            leading_zeros=width - 1,
        )
        negative = self.total[-1]
        value = SimpleNamespace(
            sign=negative,
            significand=wire(m, "magnitude", Mux(negative, -self.total, self.total)[:width]),
            biased=wire(m, "biased", self.exponent - self.mantissa + offset),
        )
        m.d.comb += self.y.eq(staged(m, rounder.stages(), self.registers, value).y)
        return m
