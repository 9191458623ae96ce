"""Aligned mantissas times whole integer weights."""

from collections.abc import Iterable

from amaranth import Cat, Module, Mux, Value

from tilewright.golden.params.arith import AdderTreeStyle
from tilewright.golden.params.pe import FignaParams
from tilewright.hw.arith.adder_tree import merged_sum, styled_sum
from tilewright.hw.arith.carry_save import carry_save_product
from tilewright.hw.arith.float_unpack import wire
from tilewright.hw.pe.aligned import AlignedElement


class Figna(AlignedElement[FignaParams]):
    """Dot product of aligned activations and scaled integer weights, all bits at once.

    Numerics: :class:`tilewright.golden.params.pe.FignaParams`.
    Timing: a beat a cycle, latency ``stages``; by default 4: group sum, scaling, sum, rounding to
    fp16.
    """

    def datapath(self, m: Module, valid: Value) -> None:
        beat = self.beat
        p = self.params
        products = product_sum(m, beat.activation, beat.weight, p.adder, p.merged)
        self.give_group_sums(
            m, valid, products, beat.group_end, beat.exponent, beat.scale, beat.last
        )


def product_sum(
    m: Module,
    activations: Iterable[Value],
    weights: Iterable[Value],
    adder: AdderTreeStyle,
    merged: bool,
) -> Value:
    """Exact sum of the products of {mantissa, sign} words and integers."""
    rows, signs, operands = [], [], []
    for k, (activation, weight) in enumerate(zip(activations, weights, strict=True)):
        mantissa, sign = activation[:-1], activation[-1] ^ weight[-1]
        size = wire(m, f"size_{k}", Mux(weight[-1], -weight, weight)[: len(weight)])
        operands.append((mantissa, size, sign))
        if merged:
            continue
        product = mantissa * size
        if adder is AdderTreeStyle.CARRY_SAVE:
            row, other_row = carry_save_product(m, [*size], [*mantissa])
            product = (row + other_row)[: len(product)]
        # One's complement of the magnitude; the ones that are missing are summed separately.
        rows.append(Cat(product ^ sign.replicate(len(product)), sign).as_signed())
        signs.append(sign)
    if merged:
        return merged_sum(m, *zip(*operands, strict=True))
    return wire(m, "products", styled_sum(rows, adder) + styled_sum(signs, adder))
