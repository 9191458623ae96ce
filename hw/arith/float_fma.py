"""Fused multiply-add."""

from amaranth import Cat, Const, Module, Mux, Value

from golden.params.formats import FloatFormat, Subnormals
from hw.arith.float_round import Rounder
from hw.arith.float_unpack import Operand, both, either, normalise, present, split, wire
from hw.arith.lanes import LanewiseUnit
from hw.arith.shifter import shift_right_sticky

__all__ = ["FloatFma"]


class FloatFma(LanewiseUnit):
    """``y = a * b + c`` in every lane.

    Numerics: the exact sum rounded once into ``params.out``; 0 * infinity and infinity - infinity
    are NaN; an exact zero sum of opposite signs is +0.
    Timing: one a cycle, latency ``params.latency``. Stages: unpack; multiply and align c; add; the
    rounder's three (count zeros, shift, round).

    The sum is formed in a window that stands still around the product; c moves through it:

        | carry | ``above`` bits | product | ``below`` bits | sticky

    c starts at the top. If it belongs higher still, all of the product lies below the rounding
    position, where its exact place does not matter, and the window hangs on c instead.
    """

    def lane_stages(self):
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
        products = _lowest(p.a, not self.flush) + _lowest(p.b, not self.flush)
        rounder = Rounder(
            p.out,
            p.rules,
            width=1 + self.window_bits,
            lowest=min(products + 1 + self.above, _lowest(p.c, self.normalises_c)) + lift,
            highest=max(p.a.max_exponent + p.b.max_exponent + 1 + self.above, p.c.max_exponent)
            + lift,
            leading_zeros=self.window_bits,
            sticky=True,
        )
        return [self._unpack, self._multiply, self._add, *rounder.stages()]

    @property
    def window_bits(self) -> int:
        return self.above + self.product_bits + self.below

    def _unpack(self, m, x):
        p = self.params
        a, b, c = (
            split(fmt, pattern, p.operand_subnormals)
            for fmt, pattern in ((p.a, x.a), (p.b, x.b), (p.c, x.c))
        )
        a_exponent, a_significand = self._place(m, a, not self.flush)
        b_exponent, b_significand = self._place(m, b, not self.flush)
        c_exponent, c_significand = self._place(m, c, self.normalises_c)
        no_product = a.zero | b.zero
        top = a_exponent + b_exponent + self.product_offset
        c_top = c_exponent - p.c.bias
        distance = top - c_top
        c_leads = no_product | ((distance < 0) & ~c.zero)
        product_sign = a.sign ^ b.sign
        product_infinite = either(a.infinite, b.infinite)
        opposite = product_sign ^ c.sign
        invalid = either(
            both(a.infinite, b.zero),
            both(a.zero, b.infinite),
            both(both(product_infinite, c.infinite), opposite),
        )
        return present(
            a=Mux(b.zero, 0, a_significand),
            b=b_significand,
            c=c_significand,
            distance=Mux(c_leads, 0, distance[:-1]),
            biased=Mux(c_leads, c_top, top) + (1 + p.out.bias),
            product_sign=product_sign,
            c_sign=c.sign,
            product_infinite=product_infinite,
            infinite=either(product_infinite, c.infinite),
            nan=either(a.nan, b.nan, c.nan, invalid),
        )

    def _place(self, m: Module, x: Operand, normalises: bool) -> tuple[Value, Value]:
        """Biased exponent and significand; a zero has significand 0."""
        if self.flush:
            return x.biased, Mux(x.zero, 0, x.significand)
        if not normalises:
            return x.biased, x.significand
        significand, zeros = normalise(m, x.significand)
        return x.biased - zeros, significand

    def _multiply(self, m, x):
        top = Cat(Const(0, self.window_bits - len(x.c)), x.c)
        aligned, sticky = shift_right_sticky(top, x.distance)
        rest = {n: v for n, v in vars(x).items() if n not in ("a", "b", "c", "distance")}
        return {**rest, "product": x.a * x.b, "c": aligned, "sticky": sticky}

    def _add(self, m, x):
        subtract = x.product_sign ^ x.c_sign
        product = Cat(Const(0, self.below), x.product)
        low, high = x.c[: len(product)], x.c[len(product) :]
        # c + product, or c - product, with the carry entering below the last bit.
        wide = Cat(product, Const(0, self.above)) ^ subtract.replicate(self.window_bits)
        total = wire(m, "total", (Cat(subtract, x.c) + Cat(subtract, wide))[1:])
        # product - c: subtracting the tail too leaves a tail, so its borrow is taken from here.
        carry = ~x.sticky
        reverse = wire(m, "reverse", (Cat(carry, product) + Cat(carry, ~low))[1:])
        product_leads = wire(m, "product_leads", subtract & reverse[-1] & ~high.any())
        cancels = subtract & (low == product) & ~high.any()
        sign = Mux(subtract & ~product_leads, x.c_sign, x.product_sign & ~cancels)
        if hasattr(x, "infinite"):
            infinite_sign = x.c_sign
            if hasattr(x, "product_infinite"):
                infinite_sign = Mux(x.product_infinite, x.product_sign, x.c_sign)
            sign = Mux(x.infinite, infinite_sign, sign)
        return present(
            sign=sign,
            significand=Mux(product_leads, reverse[:-1], Cat(total[:-1], total[-1] & ~subtract)),
            biased=x.biased,
            sticky=x.sticky,
            infinite=getattr(x, "infinite", None),
            nan=getattr(x, "nan", None),
        )


def _lowest(fmt: FloatFormat, normalised: bool) -> int:
    """Exponent of the smallest value."""
    return fmt.min_exponent - (fmt.mantissa_bits if normalised else 0)


def _quantum(fmt: FloatFormat) -> int:
    """Exponent of the last place of a subnormal."""
    return fmt.min_exponent - fmt.mantissa_bits
