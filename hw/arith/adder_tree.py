"""Exact sum of many integers."""

from collections.abc import Iterable
from functools import reduce
from operator import add
from types import SimpleNamespace

from amaranth import Cat, Const, Module, Signal, Value

from tilewright.golden.params.arith import AdderTreeParams, AdderTreeStyle
from tilewright.hw.arith.carry_save import carry_save_sum
from tilewright.hw.arith.reduction import reduction_stages
from tilewright.hw.stream.pipeline import PipelinedUnit, Stage


def tree_sum(terms: list) -> Value:
    """Balanced sum; the shape grows a bit per level, so nothing is ever lost."""
    while len(terms) > 1:
        rest = terms[len(terms) & ~1 :]
        terms = [a + b for a, b in zip(terms[0::2], terms[1::2], strict=False)] + rest
    return terms[0]


def styled_sum(terms: list, style: AdderTreeStyle, m: Module | None = None) -> Value:
    """Exact sum of ``terms``, of any widths and signs, as ``style`` says.

    A carry-save row is used twice by the next, so that an expression of many levels grows with the
    square of the terms and more: with a module ``m`` every row is a signal of it. A few terms do
    without.
    """
    if style is AdderTreeStyle.BALANCED:
        return tree_sum(terms)
    if style is AdderTreeStyle.CHAIN:
        return reduce(add, terms)
    rows = [Value.cast(term) for term in terms]
    negative = any(row.shape().signed for row in rows)
    # A bit for the sign of unsigned rows among signed ones, and what the sum may grow.
    width = max(map(len, rows)) + negative + (len(rows) - 1).bit_length()
    while len(rows) > 2:
        rows = _three_to_two(rows, width)
        if m is not None:
            rows = [_signal_of(m, row) for row in rows]
    total = reduce(add, rows)[:width]
    return total.as_signed() if negative else total


def merged_sum(
    m: Module, magnitudes: Iterable[Value], factors: Iterable[Value], negative: Iterable[Value]
) -> Value:
    """Exact sum of products of unsigned numbers, of which some are negative.

    A negative one has the one's complement of its magnitude, which the sum of such factors settles.
    No product is complete before the sum, so that synthesis makes one carry-save tree of all.
    """
    products, lacking = [], []
    for magnitude, factor, sign in zip(magnitudes, factors, negative, strict=True):
        bits = len(magnitude)
        products.append((magnitude ^ sign.replicate(bits)) * factor)
        lacking.append(factor & sign.replicate(len(factor)))
    rest = Signal(tree_sum(lacking).shape(), name="lacking")
    m.d.comb += rest.eq(tree_sum(lacking))
    return tree_sum(products) + rest - (rest << bits)


class AdderTree(PipelinedUnit[AdderTreeParams]):
    """Exact sum of ``terms``: one a cycle, latency ``params.latency``.

    A stage per level of the tree, per adder of the chain, or per level of carry-save rows and one
    for the adder after them.
    """

    def stages(self) -> list[Stage]:
        p = self.params
        if p.style is AdderTreeStyle.BALANCED or p.terms == 1:
            return reduction_stages("terms", "sum", p.terms, add)
        return self._chain() if p.style is AdderTreeStyle.CHAIN else self._carry_save()

    def _chain(self) -> list[Stage]:
        last = self.params.terms - 2

        def adder(k: int) -> Stage:
            def stage(m: Module, s: SimpleNamespace) -> dict:
                first, *rest = [s.sum, *s.terms] if k else s.terms
                total = first + rest[0]
                return {"sum": total} if k == last else {"sum": total, "terms": rest[1:]}

            return stage

        return [adder(k) for k in range(last + 1)]

    def _carry_save(self) -> list[Stage]:
        width = self.params.sum_bits
        stages: list[Stage] = []
        rows = self.params.terms
        while rows > 2:
            stages.append(lambda m, s: {"terms": _three_to_two(list(s.terms), width)})
            rows = rows // 3 * 2 + rows % 3
        return [*stages, self._last_sum]

    def _last_sum(self, m: Module, s: SimpleNamespace) -> dict[str, Value]:
        total = (s.terms[0] + s.terms[1])[: self.params.sum_bits]
        return {"sum": total.as_signed() if self.params.signed else total}


def _three_to_two(rows: list[Value], width: int) -> list[Value]:
    """A level of carry-save sums; modulo 2^width, which holds every result."""
    rows = [_extended(row, width) for row in rows]
    whole = len(rows) - len(rows) % 3
    reduced = []
    for k in range(0, whole, 3):
        total, carry = carry_save_sum(*rows[k : k + 3])
        reduced += [total, Cat(Const(0, 1), carry[:-1])]
    return [*reduced, *rows[whole:]]


def _signal_of(m: Module, row: Value) -> Signal:
    signal = Signal(row.shape(), name="carry_save_row")
    m.d.comb += signal.eq(row)
    return signal


def _extended(row: Value, width: int) -> Value:
    """Two's complement or unsigned, as its shape says, in ``width`` bits."""
    sign = row[-1] if row.shape().signed else Const(0, 1)
    return Cat(row, sign.replicate(width - len(row)))
