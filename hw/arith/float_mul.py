"""Float multiplier."""

from amaranth import Cat, Const

from golden.params.formats import Subnormals
from hw.arith.float_round import Rounder
from hw.arith.float_unpack import both, either, present, split
from hw.arith.lanes import LanewiseUnit

__all__ = ["FloatMul"]


class FloatMul(LanewiseUnit):
    """``y = a * b`` in every lane.

    Numerics: the exact product rounded once into ``params.out``; 0 * infinity is NaN.
    Timing: one a cycle, latency ``params.latency``.
    """

    def lane_stages(self):
        p = self.params
        self.flush = p.operand_subnormals is Subnormals.FLUSH
        # Weight of the product's top bit, as an exponent field of the result.
        self.offset = p.out.bias - p.a.bias - p.b.bias + 1
        fractions = p.a.mantissa_bits + p.b.mantissa_bits
        rounder = Rounder(
            p.out,
            p.rules,
            width=fractions + 2,
            lowest=2 + self.offset,
            highest=p.a.max_exponent + p.b.max_exponent + 1 + p.out.bias,
            leading_zeros=1 if self.flush else fractions + 1,
        )
        return [self._multiply, *rounder.stages()]

    def _multiply(self, m, x):
        p = self.params
        a = split(p.a, x.a, p.operand_subnormals)
        b = split(p.b, x.b, p.operand_subnormals)
        if self.flush:
            # What is not zero has its hidden bit; zero is a flag, its product is not looked at.
            product = Cat(a.fraction, Const(1)) * Cat(b.fraction, Const(1))
        else:
            product = a.significand * b.significand
        invalid = either(both(a.infinite, b.zero), both(a.zero, b.infinite))
        return present(
            sign=a.sign ^ b.sign,
            significand=product,
            biased=a.biased + b.biased + self.offset,
            zero=a.zero | b.zero if self.flush else None,
            infinite=either(a.infinite, b.infinite),
            nan=either(a.nan, b.nan, invalid),
        )
