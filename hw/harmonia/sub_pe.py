"""Dot product of sign-magnitude numbers, and the wrapper that holds two of them."""

from amaranth import Module, Signal, Value, signed
from amaranth.lib import data, wiring
from amaranth.lib.wiring import In, Out

from tilewright.golden.params.harmonia import ACTIVATION_BITS, OPERAND_BITS, HarmoniaPeParams
from tilewright.hw.arith.adder_tree import merged_sum, tree_sum
from tilewright.hw.arith.float_unpack import wire

PRODUCT_BITS = ACTIVATION_BITS + OPERAND_BITS


def sub_element_signature(params: HarmoniaPeParams) -> wiring.Signature:
    """The ports of a sub-PE."""
    lanes = params.lanes
    return wiring.Signature(
        {
            "a_signs": In(lanes),
            "a": In(data.ArrayLayout(ACTIVATION_BITS, lanes)),
            "b_signs": In(lanes),
            "b": In(data.ArrayLayout(OPERAND_BITS, lanes)),
            "sum": Out(signed(params.half_sum_bits)),
        }
    )


class SubPE(wiring.Component):
    """Exact sum of ``lanes`` products of 8-bit and 4-bit magnitudes with their signs.

    A negative product enters as its one's complement; what that leaves out is the same for every
    negative lane, so their number settles it once: smaller than negating lane by lane.

    Timing: combinational; where a beat takes several cycles, products are in registers, and where
    it takes three or more, their sum and the number of negative ones are, too.
    """

    def __init__(self, params: HarmoniaPeParams):
        self.params = params
        self.paced = params.beat_cycles > 1
        self.sum_held = params.beat_cycles > 2
        super().__init__(sub_element_signature(params))

    def elaborate(self, platform: object) -> Module:
        m = Module()
        negative = wire(m, "negative", self.a_signs ^ self.b_signs)
        if self.params.merged:
            magnitudes = [Value.cast(a) for a in self.a]
            m.d.comb += self.sum.eq(merged_sum(m, magnitudes, map(Value.cast, self.b), negative))
            return m
        terms = []
        for k, sign in enumerate(negative):
            product = wire(m, f"product_{k}", Value.cast(self.a[k]) * self.b[k])
            if self.paced:
                product = Signal(PRODUCT_BITS, name=f"held_{k}", reset_less=True)
                m.d.sync += product.eq(Value.cast(self.a[k]) * self.b[k])
            terms.append(product ^ sign.replicate(PRODUCT_BITS))
        count = wire(m, "negatives", tree_sum(list(negative)))
        if self.sum_held:
            held_count = Signal.like(count, name="held_negatives", reset_less=True)
            m.d.sync += held_count.eq(count)
            count = held_count
        domain = m.d.sync if self.sum_held else m.d.comb
        domain += self.sum.eq(tree_sum(terms) + count - (count << PRODUCT_BITS))
        return m


class Wrapper(wiring.Component):
    """The sub-PEs that take the same half of an 8-bit operand in M8M8."""

    def __init__(self, params: HarmoniaPeParams, count: int):
        self.params = params
        super().__init__({"sub": Out(sub_element_signature(params)).array(count)})

    def elaborate(self, platform: object) -> Module:
        m = Module()
        for k, port in enumerate(self.sub):
            m.submodules[f"sub_{k}"] = unit = SubPE(self.params)
            for name in ("a_signs", "a", "b_signs", "b"):
                m.d.comb += getattr(unit, name).eq(getattr(port, name))
            m.d.comb += port.sum.eq(unit.sum)
        return m
