"""The prover on claims whose truth is plain."""

import pytest
from amaranth import Module, Mux, Signal
from amaranth.lib import wiring
from amaranth.lib.wiring import In, Out

from tests.support.prove import Outcome, check_bounded, prove
from tilewright.synth.yosys import SynthesisError


class NeverReaches(wiring.Component):
    """A counter that runs 1, 2, 3, 4, 5, 1, ... while ``step`` is set never shows ``value``."""

    step: In(1)
    bad: Out(1)

    def __init__(self, value: int):
        super().__init__()
        self.value = value

    def elaborate(self, platform):
        m = Module()
        count = Signal(3, init=1)
        with m.If(self.step):
            m.d.sync += count.eq(Mux(count == 5, 1, count + 1))
        m.d.comb += self.bad.eq(count == self.value)
        return m


def test_true_claim_is_proved():
    assert prove(NeverReaches(6)).outcome is Outcome.PROVED


def test_true_claim_that_induction_does_not_reach_is_unknown():
    # 0 is out of reach; but from 7, which is out of reach too, it is one step away.
    assert prove(NeverReaches(0), cycles=1).outcome is Outcome.UNKNOWN
    assert check_bounded(NeverReaches(0), cycles=9).outcome is Outcome.BOUNDED


def test_false_claim_is_refuted_in_the_first_bad_cycle():
    verdict = prove(NeverReaches(4), cycles=9)
    assert (verdict.outcome, verdict.cycles) == (Outcome.REFUTED, 4)
    last = verdict.counterexample.splitlines()[-3:]
    assert [line.split()[:3] for line in last if "bad" in line] == [["4", r"\bad", "1"]]


@pytest.mark.parametrize("cycles", [1, 3])
def test_bounded_check_sees_only_its_cycles(cycles):
    verdict = check_bounded(NeverReaches(4), cycles=cycles)
    assert (verdict.outcome, verdict.cycles) == (Outcome.BOUNDED, cycles)
    assert verdict.counterexample == ""


def test_claim_without_bad_is_refused():
    class Mute(wiring.Component):
        good: Out(1)

        def elaborate(self, platform):
            return Module()

    with pytest.raises(SynthesisError, match=r"`bad'"):
        prove(Mute())
