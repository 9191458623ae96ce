"""fp16 times fp16 into fp32."""

from amaranth import Module, Mux, Value

from tilewright.golden.params.formats import FP16, FP32, Subnormals
from tilewright.golden.params.pe import FpFpParams, SumForm
from tilewright.hw.arith.carry_save import carry_save_product
from tilewright.hw.arith.float_unpack import split, wire
from tilewright.hw.pe.common import ProcessingElement
from tilewright.hw.pe.fused_sum import Term, accumulated_sum, product_sum

# From how many stages on a register is there: the ladder of FpFpParams.
SUMMED, RESULT, PRODUCTS = 2, 3, 4


class FpFp(ProcessingElement[FpFpParams]):
    """Dot product of fp16 activations and fp16 weights.

    Numerics: :class:`tilewright.golden.params.pe.FpFpParams`.
    Timing: a beat a cycle. Fused: latency ``stages``, by default 3: products and their sum,
    accumulation, rounding to fp16. Discrete: products, one level of the adder tree a cycle,
    accumulation, rounding.
    """

    def datapath(self, m: Module, valid: Value) -> None:
        if self.params.form is SumForm.FUSED:
            self._fused(m, valid)
        else:
            self._discrete(m, valid)

    def _fused(self, m: Module, valid: Value) -> None:
        pairs = zip(self.beat.activation, self.beat.weight, strict=True)
        products = [_product(m, k, a, w) for k, (a, w) in enumerate(pairs)]
        stages, last = self.params.stages, self.beat.last
        if stages >= PRODUCTS:
            named = {
                f"{name}_{k}": value
                for k, product in enumerate(products)
                for name, value in product._asdict().items()
            }
            valid, last, *parts = self.registered(m, "lanes", valid, last=last, **named)
            size = len(Term._fields)
            products = [Term(*parts[k : k + size]) for k in range(0, len(parts), size)]
        total = product_sum(m, self.params, products, self.params.adder)
        if stages >= SUMMED:
            valid, last, *parts = self.registered(
                m, "products", valid, last=last, **total._asdict()
            )
            total = Term(*parts)
        complete, result = self.accumulated(
            m,
            "sum",
            valid,
            last,
            FP32.bits,
            lambda carried: accumulated_sum(m, self.params, carried, total),
        )
        self.give(m, complete, result, held=stages >= RESULT)

    def _discrete(self, m: Module, valid: Value) -> None:
        pairs = zip(self.beat.activation, self.beat.weight, strict=True)
        terms = [self.product(m, f"lane_{k}", FP16, FP16, a, w) for k, (a, w) in enumerate(pairs)]
        last = self.beat.last
        for level in range(self.params.growth + 1):
            if level:
                terms = [
                    self.sum(m, f"level_{level}_{k}", terms[2 * k], terms[2 * k + 1])
                    for k in range(len(terms) // 2)
                ]
            named = {f"term_{k}": term for k, term in enumerate(terms)}
            valid, last, *terms = self.registered(m, f"level_{level}", valid, last=last, **named)
        complete, total = self.accumulated(
            m, "sum", valid, last, FP32.bits, lambda carried: self.sum(m, "grown", carried, *terms)
        )
        self.give(m, complete, total)


def _product(m: Module, lane: int, activation: Value, weight: Value) -> Term:
    """Exact; subnormals stay as they are, with leading zeros."""
    a, w = (split(FP16, pattern, Subnormals.KEEP) for pattern in (activation, weight))
    row, other_row = carry_save_product(m, [*a.significand], [*w.significand])
    zero = a.zero | w.zero
    # Weight of the product's top bit, as an exponent field of fp32.
    offset = 2 * FP16.significand_bits - 1 - 2 * (FP16.bias + FP16.mantissa_bits) + FP32.bias
    field = wire(m, f"field_{lane}", a.biased + w.biased + offset)[: FP32.exponent_bits]
    assert a.nan is not None and a.infinite is not None  # fp16 has both
    infinite = a.infinite | w.infinite
    return Term(
        sign=a.sign ^ w.sign,
        field=Mux(zero, 0, field),
        magnitude=wire(m, f"magnitude_{lane}", (row + other_row)[: len(row)]),
        infinite=infinite,
        nan=a.nan | w.nan | (infinite & zero),
    )
