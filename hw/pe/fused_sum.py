"""Sums of exact products and an fp32 accumulator, aligned to the largest exponent."""

from collections.abc import Iterable
from functools import reduce
from operator import or_
from types import SimpleNamespace
from typing import NamedTuple

from amaranth import Cat, Const, Module, Mux, Value

from tilewright.golden.params.arith import IEEE_RULES, AdderTreeStyle
from tilewright.golden.params.formats import FP32, Subnormals
from tilewright.golden.params.pe import FusedParams
from tilewright.hw.arith.adder_tree import styled_sum
from tilewright.hw.arith.float_round import Rounder
from tilewright.hw.arith.float_unpack import split, wire
from tilewright.hw.arith.lanes import joined
from tilewright.hw.arith.max_tree import larger

# The accumulator's exponent field stays within these bounds. Products are multiples of 2^-48, so
# no sum lies below; and a sum past the upper one takes 2^80 beats of the largest products.
_LOWEST, _HIGHEST = FP32.bias - 48, 240


class Term(NamedTuple):
    """An exact value: its top bit has the weight of fp32's exponent field ``field``.

    ``field`` is 0 where the magnitude is. An infinite or NaN term has any field and magnitude.
    """

    sign: Value
    field: Value  # as many bits as fp32's
    magnitude: Value
    infinite: Value
    nan: Value


def product_sum(
    m: Module,
    params: FusedParams,
    products: list[Term],
    adder: AdderTreeStyle = AdderTreeStyle.BALANCED,
) -> Term:
    """The products of a beat, cut off to the window of ``params`` and summed."""
    total = _aligned_sum(m, "products", products, params.window_bits - params.growth, adder)
    field = total.field & total.magnitude.any().replicate(FP32.exponent_bits)
    return total._replace(field=field)


def accumulated_sum(m: Module, params: FusedParams, accumulator: Value, total: Term) -> Value:
    """fp32 pattern of ``accumulator`` plus ``total``, rounded once."""
    own = split(FP32, accumulator, Subnormals.FLUSH)
    significand = Cat(own.fraction, Const(1)) & own.hidden.replicate(FP32.significand_bits)
    term = Term(own.sign, own.biased, significand, own.infinite, own.nan)
    result = _aligned_sum(m, "accumulated", [term, total], params.window_bits)
    rounder = Rounder(
        FP32,
        IEEE_RULES,
        width=len(result.magnitude),
        lowest=_LOWEST,
        highest=_HIGHEST,
        leading_zeros=len(result.magnitude) - 1,
    )
    values = SimpleNamespace(
        sign=result.sign,
        significand=result.magnitude,
        biased=result.field,
        infinite=result.infinite,
        nan=result.nan,
    )
    return joined(*rounder.stages())(m, values)["y"]


def _aligned_sum(
    m: Module,
    name: str,
    terms: list[Term],
    window: int,
    adder: AdderTreeStyle = AdderTreeStyle.BALANCED,
) -> Term:
    """Sum after alignment to the largest exponent in ``window`` bits, longer by what it may grow.

    Its field is not 0 where its magnitude is.
    """

    def named(label: str, value: Value) -> Value:
        return wire(m, f"{name}_{label}", value)

    growth = (len(terms) - 1).bit_length()
    width = window + growth
    top = terms[0].field
    for term in terms[1:]:
        top = named("top", larger(top, term.field))
    rows = []
    for k, term in enumerate(terms):
        lifted = Cat(Const(0, window - len(term.magnitude)), term.magnitude)
        distance = named(f"distance_{k}", (top - term.field)[: FP32.exponent_bits])
        near, far = distance[: window.bit_length()], distance[window.bit_length() :]
        kept = named(f"aligned_{k}", (lifted >> near) & ~far.any().replicate(window))
        # One's complement; the ones that make it two's complement are summed separately.
        rows.append(Cat(kept ^ term.sign.replicate(window), term.sign.replicate(growth + 1)))
    ones = styled_sum([term.sign for term in terms], adder)
    total = named("total", (styled_sum(rows, adder) + ones)[: width + 1])
    negative = total[-1]
    plus = _any(term.infinite & ~term.sign for term in terms)
    minus = _any(term.infinite & term.sign for term in terms)
    return Term(
        sign=Mux(plus | minus, minus, negative),
        field=named("field", top + growth)[: FP32.exponent_bits],
        magnitude=named("magnitude", Mux(negative, -total, total)[:width]),
        infinite=plus | minus,
        nan=_any(term.nan for term in terms) | (plus & minus),
    )


def _any(flags: Iterable[Value]) -> Value:
    return reduce(or_, flags)
