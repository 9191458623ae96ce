"""Proofs that registers differ only while nobody reads them: what they prove, and what not."""

import pytest
from amaranth import Module, Mux, Signal
from amaranth.back import rtlil

from tilewright.studies.mutations import Verdict, proof, sites_of
from tilewright.studies.mutations.campaign import OfBlock, prove_survivors
from tilewright.studies.mutations.judging import Mutant
from tilewright.studies.mutations.operators import comparable
from tilewright.studies.mutations.proof import Answer, compare
from tilewright.synth.record import sha256


def held(read):
    """A word that is kept when it is given, as RTLIL, and shown in some way."""
    given, enable, i, o = Signal(name="given"), Signal(name="enable"), Signal(4), Signal(4)
    i.name, o.name = "i", "o"
    valid, word, late = Signal(reset_less=read == "not reset"), Signal(4), Signal(4)
    valid.name, word.name, late.name = "valid", "word", "late"
    m = Module()
    with m.If(given):
        m.d.sync += word.eq(i)
        m.d.sync += valid.eq(1)
    match read:
        case "guarded" | "not reset":
            m.d.comb += o.eq(Mux(valid, word, 0))
        case "in the next cycle alone":
            m.d.sync += valid.eq(given)
            m.d.comb += o.eq(Mux(valid, word, 0))
        case "a cycle later":
            shown = Signal()
            m.d.sync += shown.eq(valid)
            m.d.sync += late.eq(word)
            m.d.comb += o.eq(Mux(shown, late, 0))
        case "always":
            m.d.comb += o.eq(~word)
        case "enabled":
            m.d.comb += o.eq(Mux(enable, word, 0))
        case "too early":
            m.d.sync += valid.eq(1)
            m.d.comb += o.eq(Mux(valid, word, 0))
    return rtlil.convert(m, ports=[given, enable, i, o], name="held", emit_src=False)


def texts(read, change):
    text = held(read)
    first = next(site for site in sites_of(text) if site.change == change)
    return comparable(text, first)


@pytest.fixture
def looked(monkeypatch):
    """What is found by looks for a proof by induction."""
    found, look = [], proof.look_for_unread

    def noted(*args):
        found.append(look(*args))
        return found[-1]

    monkeypatch.setattr(proof, "look_for_unread", noted)
    return found


WRONG, DROPPED = "\\word: 4'0000 to 4'0001", "\\given [0] taken as 1"


@pytest.mark.parametrize("read", ["guarded", "in the next cycle alone", "a cycle later"])
def test_a_wrong_value_after_a_reset_that_nobody_reads(read):
    """A later register that takes it over, too, has a guard of its own."""
    assert compare(*texts(read, WRONG)) is Answer.UNREAD


@pytest.mark.parametrize("read", ["always", "enabled", "too early", "not reset"])
def test_a_wrong_value_after_a_reset_that_is_read(read, looked):
    """Under an enable that anybody may give, or a guard that is left or not reset in time.

    ABC, which is asked once no proof is found, shows that the difference is one.
    """
    assert compare(*texts(read, WRONG)) is Answer.DIFFERENT
    (found,) = looked
    assert not found.is_proved and found.seen == {"o[0]"}


@pytest.mark.parametrize(
    ("read", "answer"),
    [("in the next cycle alone", Answer.UNREAD), ("guarded", Answer.DIFFERENT)],
)
def test_a_register_that_is_written_without_its_enable(read, answer):
    """It differs in every cycle without a word, which is one that shows it or not."""
    assert compare(*texts(read, DROPPED)) is answer


def test_nothing_is_proved_of_other_names(tmp_path):
    """An input or an output that only one side has."""
    for side, name in (("gold", "a"), ("gate", "b")):
        (tmp_path / f"{side}.aig").write_text(f"aig 1 1 0 1 0\n2\ni0 {name}\no0 o\n")
    found = proof.look_for_unread(tmp_path / "gold.aig", tmp_path / "gate.aig", 10)
    assert not found.is_proved
    found = proof.look_for_unread(tmp_path / "gold.aig", tmp_path / "gold.aig", 10)
    assert found.is_proved


def test_a_verdict_names_the_proof(monkeypatch):
    text = held("guarded")
    site = next(site for site in sites_of(text) if site.change == WRONG)
    monkeypatch.setattr("tilewright.studies.mutations.campaign.to_rtlil", lambda params: text)
    before = Mutant(site.kind, site.where, site.change, Verdict.SURVIVED.value, "")
    (after,) = prove_survivors("queue:tiny", OfBlock(sha256(text), 1, (before,))).mutants
    assert after.verdict == Verdict.EQUIVALENT.value
    assert after.finding == "proved: registers differ only while nobody reads them"


# A word of the top, and a module in it that keeps what it is given while that is valid.
AROUND = """
module \\top
  wire width 1 input 0 \\clk
  wire width 1 input 1 \\rst
  wire width 1 input 2 \\a
  wire width 1 output 3 \\y
  attribute \\init 1'0
  wire width 1 \\word
  attribute \\init 1'0
  wire width 1 \\valid
  wire width 1 $1
  process $11
    assign $1 [0] \\a [0]
    switch \\rst [0]
      case 1'1
        assign $1 [0] 1'0
    end
  end
  cell $dff $12
    parameter \\WIDTH 1
    parameter \\CLK_POLARITY 1
    connect \\D $1 [0]
    connect \\CLK \\clk [0]
    connect \\Q \\word
  end
  wire width 1 $2
  process $13
    assign $2 [0] 1'1
    switch \\rst [0]
      case 1'1
        assign $2 [0] 1'0
    end
  end
  cell $dff $14
    parameter \\WIDTH 1
    parameter \\CLK_POLARITY 1
    connect \\D $2 [0]
    connect \\CLK \\clk [0]
    connect \\Q \\valid
  end
  cell \\top.within \\within
    connect \\x \\word [0]
    connect \\v \\valid [0]
    connect \\z \\y [0]
  end
end
module \\top.within
  wire width 1 input 0 \\x
  wire width 1 input 1 \\v
  wire width 1 output 2 \\z
  cell $and $5
    parameter \\A_SIGNED 0
    parameter \\B_SIGNED 0
    parameter \\A_WIDTH 1
    parameter \\B_WIDTH 1
    parameter \\Y_WIDTH 1
    connect \\A \\x [0]
    connect \\B \\v [0]
    connect \\Y \\z
  end
end
"""


@pytest.mark.parametrize(("cell", "answer"), [("$and", Answer.UNREAD), ("$or", Answer.UNKNOWN)])
def test_in_the_top_of_a_machine_what_a_difference_reaches_is_looked_at(cell, answer, looked):
    text = AROUND.replace("cell $and ", f"cell {cell} ")
    site = next(site for site in sites_of(text) if site.change == "\\word: 1'0 to 1'1")
    assert compare(*comparable(text, site), whole=False) is answer
    first, *others = (found.seen for found in looked)
    assert first == {"top.within.x"}
    assert all(seen == (set() if answer is Answer.UNREAD else {"y"}) for seen in others)


def test_modules_around_the_one_with_the_change_are_looked_at_too(looked):
    """What is read under an enable from outside is not read too early by the module around it."""
    given, i, o = Signal(name="given"), Signal(name="i"), Signal(name="o")
    valid, word = Signal(name="valid"), Signal(name="word")
    top, unit, within = Module(), Module(), Module()
    with within.If(given):
        within.d.sync += word.eq(i)
    within.d.comb += o.eq(word & valid)
    with unit.If(given):
        unit.d.sync += valid.eq(1)
    unit.submodules.within, top.submodules.unit = within, unit
    text = rtlil.convert(top, ports=[given, i, o], name="top", emit_src=False)
    site = next(site for site in sites_of(text) if site.change == "\\word: 1'0 to 1'1")
    assert compare(*comparable(text, site), whole=False) is Answer.UNREAD
    assert [found.is_proved for found in looked] == [False, True]
