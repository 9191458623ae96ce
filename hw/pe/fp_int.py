"""fp16 times integers, with an exponent per product."""

from collections.abc import Iterable
from functools import reduce
from operator import or_
from types import SimpleNamespace

from amaranth import Cat, Module, Mux, Value, unsigned

from tilewright.golden.params.arith import IEEE_RULES
from tilewright.golden.params.formats import FP16, FP32, Subnormals
from tilewright.golden.params.pe import FpIntParams, GroupSum
from tilewright.hw.arith.adder_tree import styled_sum
from tilewright.hw.arith.carry_save import carry_save_product
from tilewright.hw.arith.float_round import Rounder
from tilewright.hw.arith.float_unpack import split, wire
from tilewright.hw.arith.lanes import joined
from tilewright.hw.pe.common import PRODUCTS, ProcessingElement
from tilewright.hw.pe.fused_sum import Term, accumulated_sum, product_sum


class FpInt(ProcessingElement[FpIntParams]):
    """Dot product of fp16 activations and scaled integer weights.

    Numerics: :class:`tilewright.golden.params.pe.FpIntParams`.
    Timing: a beat a cycle, latency ``stages``; by default 5. Exact: products and group sum,
    rounding to the partial format, scaling, accumulation, rounding to fp16. Float: products and
    their sum, group sum, scaling, accumulation, rounding to fp16.
    """

    def datapath(self, m: Module, valid: Value) -> None:
        if self.params.group_sum is GroupSum.EXACT:
            self._exact(m, valid)
        else:
            self._float(m, valid)

    def _exact(self, m: Module, valid: Value) -> None:
        beat, p = self.beat, self.params
        bits = p.magnitude_bits + 1
        pairs = zip(beat.activation, beat.weight, strict=True)
        terms = [self._product(m, k, a, w) for k, (a, w) in enumerate(pairs)]
        rows = []
        for k, (activation, term) in enumerate(zip(beat.activation, terms, strict=True)):
            # By the exponent field, 1 at least, of which one place is dropped again.
            biased = split(FP16, activation, Subnormals.KEEP).biased
            places = FP16.max_exponent - FP16.min_exponent
            width = p.product_bits + places
            placed = wire(m, f"placed_{k}", (term.magnitude << biased)[1 : width + 1])
            # One's complement; the ones that make it two's complement are summed separately.
            rows.append(Cat(placed ^ term.sign.replicate(width), term.sign).as_signed())
        signs = styled_sum([t.sign for t in terms], p.adder)
        products = wire(m, "products", styled_sum(rows, p.adder) + signs)
        flags = Cat(
            _any(t.infinite & ~t.sign for t in terms),
            _any(t.infinite & t.sign for t in terms),
            _any(t.nan for t in terms),
        )

        group_end, scale, last = beat.group_end, beat.scale, beat.last
        if p.stages >= PRODUCTS:
            _, scale, last = self.registered(m, "ending", valid & group_end, scale=scale, last=last)
            valid, group_end, products, flags = self.registered(
                m, "products", valid, group_end=group_end, sum=products, flags=flags
            )

        def grown(carried: Value) -> Value:
            number = wire(m, "number", carried[:bits].as_signed() + products)
            return Cat(number[:bits], carried[bits:] | flags)

        _, scale, last = self.registered(m, "ended", valid & group_end, scale=scale, last=last)
        complete, total = self.accumulated(
            m, "group", valid, group_end, unsigned(bits + len(flags)), grown
        )
        # Held at 0 while a group grows, so that the tail does not follow every step of it.
        shown = wire(m, "shown", Mux(complete, total, 0))
        self.give_groups(m, complete, self._rounded(m, shown), scale, last)

    def _rounded(self, m: Module, shown: Value) -> Value:
        """A group's exact sum in the partial format; what is not finite overrides it."""
        p = self.params
        bits = p.magnitude_bits
        total, flags = shown[: bits + 1], shown[bits + 1 :]
        plus, minus, nan = flags[0], flags[1], flags[2]
        number = total.as_signed()
        top = bits - 1 - (FP16.bias - 1 + FP16.mantissa_bits) + p.partial.bias
        rounder = Rounder(
            p.partial, IEEE_RULES, width=bits, lowest=top, highest=top, leading_zeros=bits - 1
        )
        values = SimpleNamespace(
            sign=Mux(plus | minus, minus, total[-1]),
            significand=wire(m, "magnitude", Mux(total[-1], -number, number)[:bits]),
            biased=wire(m, "biased", Value.cast(top)),
            infinite=plus | minus,
            nan=nan | (plus & minus),
        )
        return joined(*rounder.stages())(m, values)["y"]

    def _float(self, m: Module, valid: Value) -> None:
        beat = self.beat
        pairs = zip(beat.activation, beat.weight, strict=True)
        products = [self._product(m, k, a, w) for k, (a, w) in enumerate(pairs)]
        total = product_sum(m, self.params, products)
        # Scale and flag follow a group's end only, two steps later.
        ends = valid & beat.group_end
        ends, scale, last = self.registered(m, "ending", ends, scale=beat.scale, last=beat.last)
        _, scale, last = self.registered(m, "ended", ends, scale=scale, last=last)
        valid, group_end, *parts = self.registered(
            m, "products", valid, group_end=beat.group_end, **total._asdict()
        )
        complete, group = self.accumulated(
            m,
            "group",
            valid,
            group_end,
            FP32.bits,
            lambda carried: accumulated_sum(m, self.params, carried, Term(*parts)),
        )
        # Held at 0 while a group grows, so that the tail does not follow every step of it.
        shown = wire(m, "shown", Mux(complete, group, 0))
        partial = self.converted(m, "partial", FP32, self.params.partial, shown)
        self.give_scaled(m, complete, partial, scale, last)

    def _product(self, m: Module, lane: int, activation: Value, weight: Value) -> Term:
        """Exact; a subnormal stays as it is, with leading zeros."""
        a = split(FP16, activation, Subnormals.KEEP)
        size = wire(m, f"size_{lane}", Mux(weight[-1], -weight, weight)[: len(weight)])
        row, other_row = carry_save_product(m, [*size], [*a.significand])
        bits = self.params.product_bits
        offset = bits - 1 - (FP16.bias + FP16.mantissa_bits) + FP32.bias
        no_weight = ~weight.any()
        field = wire(m, f"field_{lane}", a.biased + offset)[: FP32.exponent_bits]
        return Term(
            sign=a.sign ^ weight[-1],
            field=Mux(a.zero | no_weight, 0, field),
            magnitude=wire(m, f"magnitude_{lane}", (row + other_row)[:bits]),
            infinite=a.infinite,
            nan=a.nan | (a.infinite & no_weight),
        )


def _any(flags: Iterable[Value]) -> Value:
    return reduce(or_, flags)
