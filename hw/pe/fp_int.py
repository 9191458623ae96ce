"""fp16 times integers, with an exponent per product."""

from amaranth import Module, Mux, Value

from tilewright.golden.params.formats import FP16, FP32, Subnormals
from tilewright.golden.params.pe import FpIntParams
from tilewright.hw.arith.carry_save import carry_save_product
from tilewright.hw.arith.float_unpack import split, wire
from tilewright.hw.pe.common import ProcessingElement
from tilewright.hw.pe.fused_sum import Term, accumulated_sum, product_sum

__all__ = ["FpInt"]


class FpInt(ProcessingElement[FpIntParams]):
    """Dot product of fp16 activations and scaled integer weights.

    Numerics: :class:`tilewright.golden.params.pe.FpIntParams`.
    Timing: a beat a cycle, latency 5: products and their sum, group sum, scaling,
    accumulation, rounding to fp16.
    """

    def datapath(self, m: Module, valid: Value) -> None:
        beat = self.i.p
        pairs = zip(beat.activation, beat.weight, strict=True)
        products = [self._product(m, k, a, w) for k, (a, w) in enumerate(pairs)]
        total = product_sum(m, self.params, products)
        # Scale and flag follow a group's end only, two steps behind it.
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
