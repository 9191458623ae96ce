"""Integer units equal their definition for every input: proofs, each with a planted bug."""

import pytest
from amaranth import Array, Cat, Module, Mux, Signal
from amaranth.lib import wiring
from amaranth.lib.wiring import In, Out

from tests.support.mutate import mutant, planted
from tests.support.prove import Outcome, check_bounded, prove
from tilewright.golden.params.arith import (
    ExpandParams,
    LeadingZerosParams,
    MaxTreeParams,
    PopcountParams,
    PrefixStyle,
    PrefixSumParams,
    ShiftDirection,
    ShifterParams,
)
from tilewright.hw.arith.expand import Expand
from tilewright.hw.arith.leading_zeros import LeadingZeros
from tilewright.hw.arith.max_tree import MaxTree
from tilewright.hw.arith.popcount import Popcount
from tilewright.hw.arith.prefix_sum import PrefixSum
from tilewright.hw.arith.shifter import Shifter
from tilewright.hw.unit import Unit


class EqualsDefinition(wiring.Component):
    """A combinational unit gives what ``definition`` says: input fields to output fields."""

    def __init__(self, unit: Unit, definition):
        self.unit, self.definition = unit, definition
        super().__init__({"x": In(unit.params.inputs[0].bits), "bad": Out(1)})

    def elaborate(self, platform):
        m = Module()
        m.submodules.unit = unit = self.unit
        m.d.comb += [unit.i.p.as_value().eq(self.x), unit.i.valid.eq(1), unit.o.ready.eq(1)]
        want = Signal(unit.o.p.shape())
        for name, value in self.definition(m, unit.params, unit.i.p).items():
            m.d.comb += want[name].eq(value)
        m.d.comb += self.bad.eq(~unit.o.valid | (unit.o.p.as_value() != want.as_value()))
        return m


def counted(m: Module, bits) -> list[Signal]:
    """How many of the bits below every place are set, and of all: one step at a time."""
    counts = [Signal(range(len(bits) + 1), name=f"count{k}") for k in range(len(bits) + 1)]
    m.d.comb += [b.eq(a + bit) for a, b, bit in zip(counts, counts[1:], bits, strict=False)]
    return counts


def prefix_sums(m, params, i):
    *below, total = counted(m, i.mask)
    return {"index": Cat(count[: params.index_bits] for count in below), "total": total}


def expanded(m, params, i):
    """``golden.integer.expand``: lane k takes word number (set bits below k), if it is set."""
    words = Array(i.x)
    lanes = zip(i.mask, counted(m, i.mask), strict=False)
    return {"y": Cat(Mux(bit, words[count], 0) for bit, count in lanes)}


def population(m, params, i):
    return {"count": counted(m, i.mask)[-1]}


def zeros_above(m, params, i):
    """A set bit below a place hides nothing: the last assignment, of the highest bit, wins."""
    count = Signal(range(params.width + 1), init=params.width)
    for k in range(params.width):
        with m.If(i.x[k]):
            m.d.comb += count.eq(params.width - 1 - k)
    return {"count": count}


def shifted(m, params, i):
    """One place at a time."""
    y, sticky = i.x, 0
    for k in range(2 * params.width):
        lost = y[0] if params.direction is ShiftDirection.RIGHT else y[-1]
        moved = y >> 1 if params.direction is ShiftDirection.RIGHT else (y << 1)[: params.width]
        goes = i.amount > k
        step, gone = Signal(params.width, name=f"y{k}"), Signal(name=f"gone{k}")
        m.d.comb += [step.eq(Mux(goes, moved, y)), gone.eq(sticky | (goes & lost))]
        y, sticky = step, gone
    return {"y": y, "sticky": sticky}


def largest(m, params, i):
    """One term after the other."""
    best = i.terms[0]
    for k in range(1, params.terms):
        better = Signal(params.width, name=f"best{k}")
        m.d.comb += better.eq(Mux(i.terms[k] >= best, i.terms[k], best))
        best = better
    return {"max": best}


def case(unit, params, definition, *marks):
    return pytest.param(unit, params, definition, id=params.slug, marks=marks)


@pytest.mark.parametrize(
    ("unit", "params", "definition"),
    [
        *(case(PrefixSum, PrefixSumParams(width=8, style=s), prefix_sums) for s in PrefixStyle),
        case(PrefixSum, PrefixSumParams(width=13), prefix_sums),
        case(PrefixSum, PrefixSumParams(), prefix_sums, pytest.mark.full),
        case(Expand, ExpandParams(lanes=8, width=16), expanded),
        case(Expand, ExpandParams(lanes=13, width=2), expanded),
        case(Expand, ExpandParams(lanes=32, width=1), expanded, pytest.mark.full),
        case(Popcount, PopcountParams(), population),
        case(LeadingZeros, LeadingZerosParams(), zeros_above),
        case(LeadingZeros, LeadingZerosParams(width=32), zeros_above),
        *(case(Shifter, ShifterParams(width=11, direction=d), shifted) for d in ShiftDirection),
        case(Shifter, ShifterParams(), shifted),
        case(MaxTree, MaxTreeParams(terms=8), largest),
    ],
)
def test_unit_equals_its_definition_for_every_input(unit, params, definition):
    assert prove(EqualsDefinition(unit(params), definition), cycles=1).outcome is Outcome.PROVED


@pytest.mark.parametrize(
    ("unit", "params", "definition", "old", "new"),
    planted(
        [
            (PrefixSum, PrefixSumParams(width=8), prefix_sums, "k // s * s - 1", "k // s * s - s"),
            (
                PrefixSum,
                PrefixSumParams(width=8, style=PrefixStyle.KOGGE_STONE),
                prefix_sums,
                "{k: k - s for",
                "{k: k - 1 for",
            ),
            (
                PrefixSum,
                PrefixSumParams(width=8),
                prefix_sums,
                "(k + 1).bit_length()",
                "k.bit_length()",
            ),
            (Expand, ExpandParams(lanes=8), expanded, "Mux(far[bit], below, word)", "word"),
            (Expand, ExpandParams(lanes=8), expanded, "[~bit for bit in s.mask]", "list(s.mask)"),
            (Popcount, PopcountParams(width=8), population, "import add", "import or_ as add"),
            (
                LeadingZeros,
                LeadingZerosParams(width=11),
                zeros_above,
                "Const((1 << padding) - 1, padding)",
                "Const(0, padding)",
            ),
            (Shifter, ShifterParams(width=11), shifted, "sticky | lost", "lost"),
            (MaxTree, MaxTreeParams(terms=8), largest, "a > b", "a > 0"),
        ]
    ),
)
def test_planted_bug_is_refuted(unit, params, definition, old, new):
    verdict = check_bounded(EqualsDefinition(mutant(unit, old, new)(params), definition), cycles=1)
    assert verdict.outcome is Outcome.REFUTED
    assert "bad" in verdict.counterexample
