"""Float adder."""

from types import SimpleNamespace

from amaranth import Cat, Const, Module, Mux, Value

from tilewright.golden.params.arith import FloatAddParams
from tilewright.golden.params.formats import FloatFormat, Subnormals
from tilewright.hw.arith.float_round import Rounder
from tilewright.hw.arith.float_unpack import (
    Operand,
    both,
    either,
    lowest_exponent,
    normalise,
    present,
    split,
)
from tilewright.hw.arith.lanes import LanewiseUnit, without
from tilewright.hw.arith.shifter import shift_right_sticky
from tilewright.hw.stream.pipeline import Stage

# Bits that the smaller significand keeps below the larger one. If it moves by two places or more,
# a difference has at most one leading zero, so what lies below these bits matters as sticky only.
GUARD_BITS = 2
# Three registers after the stages of an adder that another follows, for FPGAs: comparison and
# shift are the longest, each alone takes as long as the sum with the count of zeros after it.
SUM_REGISTERS = (1, 1, 0, 1, 0, 0)


class FloatAdd(LanewiseUnit[FloatAddParams]):
    """``y = a + b`` in every lane.

    Numerics: the exact sum rounded once into ``params.out``; infinity - infinity is NaN; an exact
    zero sum of opposite signs is +0.
    Timing: one a cycle, latency ``params.latency``. Stages: order the operands; align the smaller
    one; add; the rounder's three (count zeros, shift, round).
    """

    def lane_stages(self) -> list[Stage]:
        p = self.params
        self.precision = max(f.significand_bits for f in (p.a, p.b, p.out))
        # Where both formats end at the same exponent, a subnormal is never the larger operand by
        # its exponent alone and may stay as it is. Otherwise its leading zeros would push bits of
        # the other operand out.
        keep = p.operand_subnormals is Subnormals.KEEP
        self.normalises = keep and p.a.min_exponent != p.b.min_exponent
        kept = Subnormals.KEEP if self.normalises else Subnormals.FLUSH
        self.floor = min(lowest_exponent(f, kept) for f in (p.a, p.b)) - 1
        lift = 1 + p.out.bias  # the top bit of the sum is a carry
        self.offset = self.floor + lift
        rounder = Rounder(
            p.out,
            p.rules,
            width=1 + self.precision + GUARD_BITS,
            lowest=self.offset + 1,
            highest=max(p.a.max_exponent, p.b.max_exponent) + lift,
            leading_zeros=self.precision + GUARD_BITS,
            sticky=True,
        )
        return [self._order, self._align, self._add, *rounder.stages()]

    def _order(self, m: Module, x: SimpleNamespace) -> dict:
        """Which operand is larger, and by how many places the other one moves."""
        p = self.params
        a = split(p.a, x.a, p.operand_subnormals)
        b = split(p.b, x.b, p.operand_subnormals)
        a_level, a_significand = self._place(m, p.a, a)
        b_level, b_significand = self._place(m, p.b, b)
        if p.a == p.b:
            a_size, b_size = x.a[:-1], x.b[:-1]
        else:
            a_size, b_size = Cat(a_significand, a_level), Cat(b_significand, b_level)
        swap = b_size > a_size
        opposite = a.sign ^ b.sign
        cancels = opposite & ((a_size == b_size) | (a.zero & b.zero))
        sign = Mux(swap, b.sign, a.sign) & ~cancels
        if p.a != p.b:
            # The exponent of another format's infinity says nothing.
            for operand in (a, b):
                if operand.infinite is not None:
                    sign = Mux(operand.infinite, operand.sign, sign)
        return present(
            sign=sign,
            subtract=opposite,
            large=Mux(swap, b_significand, a_significand),
            small=Mux(swap, a_significand, b_significand),
            level=Mux(swap, b_level, a_level),
            distance=Mux(swap, (b_level - a_level)[:-1], (a_level - b_level)[:-1]),
            infinite=either(a.infinite, b.infinite),
            nan=either(a.nan, b.nan, both(both(a.infinite, b.infinite), opposite)),
        )

    def _place(self, m: Module, fmt: FloatFormat, x: Operand) -> tuple[Value, Value]:
        """Exponent above the lowest one, and significand as wide as the datapath; 0 for zero."""
        p = self.params
        flush = p.operand_subnormals is Subnormals.FLUSH
        if flush or self.normalises:
            biased, fraction = normalise(m, x, p.operand_subnormals)
            significand = Mux(x.zero, 0, Cat(fraction, Const(1)))
        else:
            biased, significand = x.biased, x.significand
        highest = max(p.a.max_exponent, p.b.max_exponent) + 1  # of infinity and NaN
        level = (biased - (fmt.bias + self.floor))[: (highest - self.floor).bit_length()]
        if p.a.min_exponent != p.b.min_exponent:
            level = Mux(x.zero, 0, level)
        return level, Cat(Const(0, self.precision - fmt.significand_bits), significand)

    def _align(self, m: Module, x: SimpleNamespace) -> dict:
        small, sticky = shift_right_sticky(Cat(Const(0, GUARD_BITS), x.small), x.distance)
        return {**without(x, "distance"), "small": small, "sticky": sticky}

    def _add(self, m: Module, x: SimpleNamespace) -> dict:
        # Subtracting the tail leaves a tail and borrows from the last retained bit.
        carry = x.subtract & ~x.sticky
        large = Cat(carry, Const(0, GUARD_BITS), x.large)
        small = Cat(carry, x.small ^ x.subtract.replicate(len(x.small)))
        total = (large + small)[1:]
        return {
            **without(x, "large", "small", "level", "subtract"),
            "significand": Cat(total[:-1], total[-1] & ~x.subtract),
            "biased": x.level + self.offset,
        }
