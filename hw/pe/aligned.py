"""Shared by FIGNA and iFPU: the integer sum of a group and its conversion to a float."""

from types import SimpleNamespace
from typing import TypeVar

from amaranth import Module, Mux, Value, signed

from tilewright.golden.params.arith import IEEE_RULES
from tilewright.golden.params.formats import FP16, FloatFormat
from tilewright.golden.params.pe import AlignedParams
from tilewright.hw.arith.float_round import Rounder
from tilewright.hw.arith.float_unpack import wire
from tilewright.hw.pe.common import PRODUCTS, ProcessingElement
from tilewright.hw.stream.pipeline import staged

P = TypeVar("P", bound=AlignedParams)


class AlignedElement(ProcessingElement[P]):
    """An element whose group sums are integers that share an exponent."""

    def give_group_sums(
        self,
        m: Module,
        valid: Value,
        products: Value,
        group_end: Value,
        exponent: Value,
        scale: Value,
        last: Value,
    ) -> None:
        """Sums of a beat's products to ``o``, by way of group sums, scaling and fp32 sums."""
        if self.params.stages >= PRODUCTS:
            _, exponent, scale, last = self.registered(
                m, "ending", valid & group_end, exponent=exponent, scale=scale, last=last
            )
            valid, group_end, products = self.registered(
                m, "products", valid, group_end=group_end, sum=products
            )
        _, exponent, scale, last = self.registered(
            m, "ended", valid & group_end, exponent=exponent, scale=scale, last=last
        )
        complete, total = self.accumulated(
            m,
            "group",
            valid,
            group_end,
            signed(self.params.magnitude_bits + 1),
            lambda carried: carried + products,
        )
        # Held at 0 while a group grows, so that the tail does not follow every step of it.
        shown = wire(m, "shown", Mux(complete, total, 0))
        self.give_groups(m, complete, self._partial(m, shown, exponent), scale, last)

    def _partial(self, m: Module, total: Value, exponent: Value) -> Value:
        """``total`` in the partial format, rounded once."""
        p = self.params
        bits = p.magnitude_bits
        # From the shared exponent to the exponent field of the sum's top bit.
        offset = bits - p.kept_bits - FP16.bias + p.partial.bias
        exponents = 1, FP16.max_exponent + FP16.bias
        return rounded_sum(m, p.partial, bits, total, exponent, offset, exponents)


def rounded_sum(
    m: Module,
    fmt: FloatFormat,
    bits: int,
    total: Value,
    exponent: Value,
    offset: int,
    exponents: tuple[int, int],
    registers: int = 0,
) -> Value:
    """An integer with a magnitude of ``bits`` bits as a pattern of ``fmt``, rounded once.

    ``exponent`` plus ``offset`` is the exponent field of its top bit; ``exponents`` are the
    smallest and the largest exponent there are. ``registers`` load in every cycle; the
    caller has another one after them.
    """
    lowest, highest = exponents
    rounder = Rounder(
        fmt,
        IEEE_RULES,
        width=bits,
        lowest=lowest + offset,
        highest=highest + offset,
        leading_zeros=bits - 1,
    )

    def magnitude(m: Module, x: SimpleNamespace) -> dict[str, Value]:
        return {
            "sign": x.total[-1],
            "significand": wire(m, "magnitude", Mux(x.total[-1], -x.total, x.total)[:bits]),
            "biased": wire(m, "biased", x.exponent + offset),
        }

    stages = rounder.stages()
    values = SimpleNamespace(total=total, exponent=exponent)
    if registers > len(stages):
        stages.insert(0, magnitude)
    else:
        values = SimpleNamespace(**magnitude(m, values))
    return staged(m, stages, registers, values, followed=True).y
