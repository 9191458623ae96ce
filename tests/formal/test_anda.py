"""Parts of the Anda units equal their definition for every input: proofs, with planted bugs."""

import pytest
from amaranth import Cat, Module, Mux, Signal, signed
from amaranth.lib import data, wiring
from amaranth.lib.wiring import In, Out

from tests.support.mutate import mutant, planted
from tests.support.prove import Outcome, check_bounded, prove
from tilewright.golden.params.anda import AndaNumerics
from tilewright.hw.anda.max_exponent import largest
from tilewright.hw.anda.plane_dot import PlaneDot

COUNT = 6


class FindsTheLargest(wiring.Component):
    """``largest`` is one of the values, and no value is above it."""

    values: In(data.ArrayLayout(5, COUNT))
    bad: Out(1)

    def __init__(self, function=largest):
        self.function = function
        super().__init__()

    def elaborate(self, platform):
        m = Module()
        found = Signal(5)
        m.d.comb += [
            found.eq(self.function(m, list(self.values))),
            self.bad.eq(
                Cat(value > found for value in self.values).any()
                | ~Cat(value == found for value in self.values).any()
            ),
        ]
        return m


def test_largest_exponent_is_found():
    assert prove(FindsTheLargest(), cycles=1).outcome is Outcome.PROVED


def test_planted_bug_in_the_largest_exponent_is_refuted():
    wrong = mutant(largest, "running & (column | ~bit", "running & (column | bit")
    assert check_bounded(FindsTheLargest(wrong), cycles=1).outcome is Outcome.REFUTED


class SumsSignedProducts(wiring.Component):
    """After a sign word and ``mantissa_bits`` planes the total is the sum of signed products.

    Whatever the group before left behind: the words of a group follow each other from a start
    that the solver chooses, with cycles in between in which nothing is taken.
    """

    def __init__(self, numerics: AndaNumerics, mantissa_bits: int, unit=PlaneDot):
        self.numerics, self.mantissa_bits, self.unit = numerics, mantissa_bits, unit
        weights = data.ArrayLayout(numerics.weight_bits, numerics.group)
        super().__init__(
            {"word": In(numerics.group), "weights": In(weights), "offer": In(1), "bad": Out(1)}
        )

    def elaborate(self, platform):
        m = Module()
        n, bits = self.numerics, self.mantissa_bits
        m.submodules.unit = unit = self.unit(n)
        place = Signal(range(bits + 1))  # which word of the group comes next
        weights = Signal(self.weights.shape())
        signs = Signal(n.group)
        mantissas = [Signal(bits, name=f"mantissa{k}") for k in range(n.group)]
        started, complete = Signal(), Signal()
        used = Mux(place == 0, self.weights.as_value(), weights.as_value())
        m.d.comb += [
            unit.step.eq(self.offer),
            unit.sign_beat.eq(place == 0),
            unit.fresh.eq(place == 1),
            unit.plane.eq(self.word ^ Mux(place == 0, 0, signs)),
            unit.weights.eq(used),
        ]
        m.d.sync += complete.eq(self.offer & (place == bits) & started)
        with m.If(self.offer):
            m.d.sync += place.eq(Mux(place == bits, 0, place + 1))
            with m.If(place == 0):
                m.d.sync += [signs.eq(self.word), weights.eq(self.weights), started.eq(1)]
            with m.Else():
                m.d.sync += [
                    mantissa.eq(Cat(self.word[k], mantissa[:-1]))
                    for k, mantissa in enumerate(mantissas)
                ]
        total = 0
        for k, mantissa in enumerate(mantissas):
            product = mantissa * weights[k].as_signed()
            total = total + Mux(signs[k], -product, product)
        want = Signal(signed(n.group_sum_bits))
        m.d.comb += [want.eq(total), self.bad.eq(complete & (unit.total.as_signed() != want))]
        return m


SMALL = AndaNumerics(group=2, weight_bits=2)  # beyond that a solver multiplies for minutes


@pytest.mark.parametrize("mantissa_bits", [1, 2])
def test_dot_product_is_exact_for_every_group(mantissa_bits):
    """Two groups in a row, from reset: every word and weight, and a cycle of waiting anywhere."""
    claim = SumsSignedProducts(SMALL, mantissa_bits)
    verdict = check_bounded(claim, cycles=2 * (mantissa_bits + 1) + 2)
    assert verdict.outcome is Outcome.BOUNDED


@pytest.mark.parametrize(
    ("old", "new"),
    planted(
        [
            ("columns[k].append(bit & ~self.sign_beat)", "columns[k].append(bit)"),
            ("group_sum & ~self.fresh.replicate(len(group_sum))", "group_sum"),
            ("columns[top + k].append(~bit)", "columns[top + k].append(bit)"),
        ]
    ),
)
def test_planted_bug_in_the_dot_product_is_refuted(old, new):
    unit = mutant(PlaneDot, old, new)
    verdict = check_bounded(SumsSignedProducts(SMALL, 2, unit), cycles=8)
    assert verdict.outcome is Outcome.REFUTED
