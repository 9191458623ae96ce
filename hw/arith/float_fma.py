"""Fused multiply-add."""

from types import SimpleNamespace

from amaranth import Cat, Const, Module, Mux

from tilewright.golden.params.arith import FloatFmaParams
from tilewright.golden.params.formats import FloatFormat, Subnormals
from tilewright.hw.arith.carry_save import carry_save_product, carry_save_sum
from tilewright.hw.arith.float_round import Rounder
from tilewright.hw.arith.float_unpack import (
    both,
    either,
    lowest_exponent,
    normalise,
    present,
    split,
    wire,
)
from tilewright.hw.arith.lanes import LanewiseUnit, joined, without
from tilewright.hw.arith.shifter import shift_right_sticky
from tilewright.hw.stream.pipeline import Stage

__all__ = ["FloatFma"]


class FloatFma(LanewiseUnit[FloatFmaParams]):
    """``y = a * b + c`` in every lane.

    Numerics: the exact sum rounded once into ``params.out``; 0 * infinity and infinity - infinity
    are NaN; an exact zero sum of opposite signs is +0.
    Timing: one a cycle, latency ``params.latency``. Stages: unpack, normalise, compare exponents;
    partial products and their carry-save tree, beside it the alignment of c (with the first stage
    where subnormals are flushed); add; the rounder's three (count zeros, shift, round).

    The sum is formed in a window that stands still around the product; c moves through it:

        | carry | ``above`` bits | product | ``below`` bits | sticky

    c starts at the top. If it belongs higher still, all of the product lies below the rounding
    position, where its exact place does not matter, and the window hangs on c instead.
    """

    def lane_stages(self) -> list[Stage]:
        p = self.params
        self.flush = p.operand_subnormals is Subnormals.FLUSH
        self.product_bits = p.a.significand_bits + p.b.significand_bits
        # c + product - a difference may lose its top bit - needs out's bits and a guard bit above
        # the product, and all bits of c.
        self.above = max(p.out.significand_bits + 2, p.c.significand_bits + 1)
        # If c leaves the window at the bottom, the product, possibly one bit short and shortened
        # by one more in a difference, still has out's bits and a guard bit; and c lies two places
        # below it, so that they cannot cancel.
        self.below = max(
            0,
            p.out.significand_bits + 3 - self.product_bits,
            p.c.significand_bits + 2 - self.product_bits,
        )
        # A subnormal c that leads may keep its zeros if the result's last place is no finer.
        self.normalises_c = not self.flush and _quantum(p.out) < _quantum(p.c)
        lift = 1 + p.out.bias  # the top bit of the window is a carry
        self.product_offset = self.above + 1 - p.a.bias - p.b.bias  # exponent at the window's top
        kept_c = Subnormals.KEEP if self.normalises_c else Subnormals.FLUSH
        lowest_product = sum(lowest_exponent(f, p.operand_subnormals) for f in (p.a, p.b))
        highest_product = p.a.max_exponent + p.b.max_exponent
        rounder = Rounder(
            p.out,
            p.rules,
            width=1 + self.window_bits,
            lowest=min(lowest_product + 1 + self.above, lowest_exponent(p.c, kept_c)) + lift,
            highest=max(highest_product + 1 + self.above, p.c.max_exponent) + lift,
            leading_zeros=self.window_bits,
            sticky=True,
        )
        count, *rest = rounder.stages()
        start: list[Stage] = [self._unpack, self._multiply]
        start = [joined(*start)] if self.flush else start
        return [*start, self._add, joined(self._sign, count), *rest]

    @property
    def window_bits(self) -> int:
        return self.above + self.product_bits + self.below

    def _unpack(self, m: Module, x: SimpleNamespace) -> dict:
        p = self.params
        a, b, c = (
            split(fmt, pattern, p.operand_subnormals)
            for fmt, pattern in ((p.a, x.a), (p.b, x.b), (p.c, x.c))
        )
        a_biased, a_fraction = normalise(m, a, p.operand_subnormals)
        b_biased, b_fraction = normalise(m, b, p.operand_subnormals)
        if self.flush or self.normalises_c:
            c_biased, c_fraction = normalise(m, c, p.operand_subnormals)
            c_significand = Mux(c.zero, 0, Cat(c_fraction, Const(1)))
        else:
            c_biased, c_significand = c.biased, c.significand
        no_product = wire(m, "no_product", a.zero | b.zero)
        top = wire(m, "top", a_biased + b_biased + self.product_offset)
        c_top = wire(m, "c_top", c_biased - p.c.bias)
        distance = wire(m, "distance", top - c_top)
        c_leads = wire(m, "c_leads", no_product | ((distance < 0) & ~c.zero))
        product_sign = a.sign ^ b.sign
        product_infinite = either(a.infinite, b.infinite)
        opposite = product_sign ^ c.sign
        invalid = either(
            both(a.infinite, b.zero),
            both(a.zero, b.infinite),
            both(both(product_infinite, c.infinite), opposite),
        )
        infinite = either(product_infinite, c.infinite)
        infinite_sign = None if infinite is None else c.sign
        if product_infinite is not None:
            infinite_sign = Mux(product_infinite, product_sign, c.sign)
        return present(
            a=Mux(no_product, 0, Cat(a_fraction, Const(1))),
            b=b_fraction,
            c=c_significand,
            distance=Mux(c_leads, 0, distance[:-1]),
            biased=Mux(c_leads, c_top, top) + (1 + p.out.bias),
            product_sign=product_sign,
            c_sign=c.sign,
            infinite=infinite,
            infinite_sign=infinite_sign,
            nan=either(a.nan, b.nan, c.nan, invalid),
        )

    def _multiply(self, m: Module, x: SimpleNamespace) -> dict:
        row, other_row = carry_save_product(m, [*x.a], [*x.b, Const(1)])
        top = Cat(Const(0, self.window_bits - len(x.c)), x.c)
        aligned, sticky = shift_right_sticky(top, x.distance)
        return {
            **without(x, "a", "b", "distance"),
            "row": row,
            "other_row": other_row,
            "c": aligned,
            "sticky": sticky,
        }

    def _add(self, m: Module, x: SimpleNamespace) -> dict:
        subtract = wire(m, "subtract", x.product_sign ^ x.c_sign)
        rows = [Cat(Const(0, self.below), row) for row in (x.row, x.other_row)]
        low, high = x.c[: len(rows[0])], x.c[len(rows[0]) :]
        # c + product or c - product. Both rows of the product are negated, so two carries enter.
        wide = [Cat(row, Const(0, self.above)) ^ subtract.replicate(len(x.c)) for row in rows]
        bits, carries = carry_save_sum(x.c, *wide)
        total = wire(m, "total", (Cat(subtract, bits) + Cat(subtract, subtract, carries))[1:])
        # product - c. Subtracting the tail too leaves a tail, for which the carry is held back.
        carry = ~x.sticky
        bits, carries = carry_save_sum(~low, *rows)
        reverse = wire(m, "reverse", (Cat(carry, bits) + Cat(carry, Const(0, 1), carries))[1:])
        not_negative = reverse[len(low)]
        product_leads = wire(m, "product_leads", subtract & not_negative & ~high.any())
        sum_bits = self.window_bits + 1
        magnitude = Cat(total[: sum_bits - 1], total[sum_bits - 1] & ~subtract)
        return {
            **without(x, "row", "other_row", "c", "c_sign", "product_sign"),
            "significand": Mux(product_leads, reverse[: len(low)], magnitude),
            "sign": Mux(subtract & ~product_leads, x.c_sign, x.product_sign),
            "subtract": subtract,
        }

    def _sign(self, m: Module, x: SimpleNamespace) -> dict:
        """Opposite terms that cancel give +0; an infinite term keeps its sign."""
        sign = x.sign & (~x.subtract | x.significand.any())
        if hasattr(x, "infinite"):
            sign = Mux(x.infinite, x.infinite_sign, sign)
        return {**without(x, "subtract", "infinite_sign"), "sign": sign}


def _quantum(fmt: FloatFormat) -> int:
    """Exponent of the last place of a subnormal."""
    return fmt.min_exponent - fmt.mantissa_bits
