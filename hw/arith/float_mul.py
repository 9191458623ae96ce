"""Float multiplier."""

from types import SimpleNamespace

from amaranth import Const, Module

from tilewright.golden.params.arith import FloatMulParams
from tilewright.golden.params.formats import Subnormals
from tilewright.hw.arith.carry_save import carry_save_product
from tilewright.hw.arith.float_round import Rounder
from tilewright.hw.arith.float_unpack import (
    both,
    either,
    lowest_exponent,
    normalise,
    present,
    split,
)
from tilewright.hw.arith.lanes import LanewiseUnit, joined, without
from tilewright.hw.stream.pipeline import Stage

# Three registers after the stages of a multiplier that keeps subnormals, for FPGAs: normalising
# the operands takes as long as the whole product after it.
PRODUCT_REGISTERS = (1, 0, 1, 1)
# The same for a product that is shifted before it is rounded, where another register follows.
SHORT_PRODUCT_REGISTERS = (1, 1, 0, 1, 0)


class FloatMul(LanewiseUnit[FloatMulParams]):
    """``y = a * b`` in every lane.

    Numerics: the exact product rounded once into ``params.out``; 0 * infinity is NaN.
    Timing: one a cycle, latency ``params.latency``. Stages: unpack and, if subnormal operands are
    kept, normalise them; partial products and their carry-save tree (with the first stage where
    there is nothing to normalise); add its two rows; if results can be subnormal, shift; round.
    """

    def lane_stages(self) -> list[Stage]:
        p = self.params
        self.flush = p.operand_subnormals is Subnormals.FLUSH
        # From the operands' exponent fields to the result's, for the weight of the top bit.
        self.offset = p.out.bias - p.a.bias - p.b.bias + 1
        lift = 1 + p.out.bias
        rounder = Rounder(
            p.out,
            p.rules,
            width=p.a.significand_bits + p.b.significand_bits,
            lowest=lowest_exponent(p.a, p.operand_subnormals)
            + lowest_exponent(p.b, p.operand_subnormals)
            + lift,
            highest=p.a.max_exponent + p.b.max_exponent + lift,
            leading_zeros=1,
        )
        if self.flush:
            start = [joined(self._unpack, self._multiply)]
        else:
            start = [self._unpack, self._multiply]
        return [*start, self._add_rows, *rounder.stages()]

    def _unpack(self, m: Module, x: SimpleNamespace) -> dict:
        p = self.params
        a = split(p.a, x.a, p.operand_subnormals)
        b = split(p.b, x.b, p.operand_subnormals)
        a_biased, a_fraction = normalise(m, a, p.operand_subnormals)
        b_biased, b_fraction = normalise(m, b, p.operand_subnormals)
        invalid = either(both(a.infinite, b.zero), both(a.zero, b.infinite))
        return present(
            a=a_fraction,
            b=b_fraction,
            biased=a_biased + b_biased + self.offset,
            sign=a.sign ^ b.sign,
            zero=a.zero | b.zero,
            infinite=either(a.infinite, b.infinite),
            nan=either(a.nan, b.nan, invalid),
        )

    def _multiply(self, m: Module, x: SimpleNamespace) -> dict:
        # Zero is a flag, its product is not looked at: every hidden bit is 1.
        row, other_row = carry_save_product(m, [*x.a, Const(1)], [*x.b, Const(1)])
        return {**without(x, "a", "b"), "row": row, "other_row": other_row}

    def _add_rows(self, m: Module, x: SimpleNamespace) -> dict:
        product = (x.row + x.other_row)[: len(x.row)]
        return {**without(x, "row", "other_row"), "significand": product}
