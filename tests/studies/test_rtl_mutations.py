"""Automatic errors in RTL: where they are put, how they are judged, and what the record says."""

import re
from dataclasses import replace

import pytest

from tilewright.golden.params.resolve import BLOCKS, resolve
from tilewright.studies.mutations import (
    KINDS,
    Mutant,
    Verdict,
    apply_to,
    load_campaign,
    proof,
    sample,
    scores,
    sites_of,
)
from tilewright.studies.mutations.campaign import (
    Campaign,
    OfBlock,
    Tried,
    judge_survivors,
    merged,
    prove_survivors,
    run_block,
)
from tilewright.studies.mutations.in_time import InTime, OutOfTime
from tilewright.studies.mutations.judging import Subject, judge
from tilewright.studies.mutations.operators import comparable, mutated
from tilewright.studies.mutations.proof import Answer, compare
from tilewright.studies.mutations.survivors import ALLOWED, NO_DIFFERENCE, UNSEEN, reason_of
from tilewright.synth.emit import to_rtlil, verilog_from_rtlil
from tilewright.synth.record import sha256

BLOCK = "queue:tiny"
RTLIL = to_rtlil(resolve(BLOCK))
SITES = list(sites_of(RTLIL))


def subject(limit=3600.0):
    return Subject(BLOCK, RTLIL, verilog_from_rtlil(RTLIL), "icarus", (30,), limit)


def test_a_small_block_has_sites_of_every_kind():
    assert {site.kind for site in SITES} == set(KINDS)


@pytest.mark.parametrize("site", SITES, ids=lambda site: f"{site.kind}, {site.change}")
def test_only_the_named_lines_change(site):
    before, after = RTLIL.split("\n"), apply_to(RTLIL, site).split("\n")
    changed = [k for k, (a, b) in enumerate(zip(before, after, strict=True)) if a != b]
    assert changed == sorted(number for number, _ in site.lines)


def test_samples_are_the_same_and_have_every_kind():
    chosen = sample(RTLIL, len(KINDS), BLOCK)
    assert chosen == sample(RTLIL, len(KINDS), BLOCK)
    assert {site.kind for site in chosen} == set(KINDS)
    assert len(set(sample(RTLIL, 1000, BLOCK))) == len(SITES)


WRAPPER = """
module \\top
  cell $sub $1
    connect \\A \\a [0]
  end
end
module \\top.machine
  cell $sub $2
    connect \\A \\a [0]
  end
end
module \\top.machinery
  cell $sub $3
    connect \\A \\a [0]
  end
end
module \\bank
  cell $sub $4
    connect \\A \\a [0]
  end
end
"""


def test_errors_of_a_wrapper_are_not_those_of_what_it_wraps():
    everywhere = {site.where for site in sample(WRAPPER, 100, "seed")}
    beside = {site.where for site in sample(WRAPPER, 100, "seed", besides="machine")}
    assert len(everywhere) == 4
    assert beside == {"top, $sub $1", "top.machinery, $sub $3"}


def of_change(change):
    return next(site for site in SITES if site.change == change)


def test_a_wrong_reset_value_is_found():
    mutant = judge(subject(), of_change("\\read__addr: 1'0 to 1'1"))
    assert mutant.verdict == Verdict.FOUND.value and "case 1: got 0x" in mutant.finding


def test_a_register_with_two_names_has_one_wrong_reset_value():
    """The other name would say the right one, which no tool takes."""
    block = "register_slice:tiny"
    text = to_rtlil(resolve(block))
    (site,) = (s for s in sites_of(text) if s.change == "\\o__valid: 1'0 to 1'1")
    changed = mutated(text, site)
    assert changed.count("init 1'1\n  wire width 1 output 7  \\o__valid") == 1
    assert "init" not in changed[: changed.index("wire width 1 \\valid")].split("\n")[-2]
    assert compare(text, changed) is Answer.DIFFERENT


def test_a_change_that_makes_no_difference_is_proved():
    """The other address of two counts as zero either way: its increment overflows."""
    same = of_change("\\write__addr [0] at 0")
    assert compare(RTLIL, apply_to(RTLIL, same)) is Answer.SAME
    assert compare(RTLIL, apply_to(RTLIL, of_change("$eq to $ne"))) is Answer.DIFFERENT


@pytest.mark.parametrize(
    ("wires", "answer"),
    [(r"\\(?:word|o__payload)", Answer.UNREAD), (r"\\(?:valid|o__valid)", Answer.DIFFERENT)],
)
def test_a_payload_counts_only_while_it_is_offered(wires, answer):
    """Another value at power-up is no difference in the payload, but one in what offers it."""
    text = to_rtlil(resolve("register_slice:tiny"))
    changed, count = re.subn(rf"(init \d'0*)0(\n  wire [^\n]* {wires}\n)", r"\g<1>1\2", text)
    assert count == 2
    assert compare(text, changed) is answer


def test_the_module_with_the_change_is_compared_alone_first(monkeypatch):
    """What is the same there is so in the block; where it is not, the block is asked."""
    tops, around = [], proof._around

    def noted(rtlil, top, is_block):
        tops.append((top.rpartition(".")[2], is_block))
        return around(rtlil, top, is_block)

    monkeypatch.setattr(proof, "_around", noted)
    text = to_rtlil(resolve("pe_figna:small"))
    module = re.search(r"^module \\(\S+\.result_round)$", text, re.MULTILINE)
    assert module
    changed = f"{text[: module.end()]}\n# nothing else{text[module.end() :]}"
    assert compare(text, changed) is Answer.SAME
    assert tops == [(module[1].rpartition(".")[2], False)]


WITHIN = """
module \\top
  wire width 4 input 0 \\a
  wire width 4 output 1 \\y
  wire width 4 $w
  cell \\top.within \\within
    connect \\x \\a [3:0]
    connect \\z $w
  end
  cell $and $1
    parameter \\A_SIGNED 0
    parameter \\B_SIGNED 0
    parameter \\A_WIDTH 4
    parameter \\B_WIDTH 4
    parameter \\Y_WIDTH 4
    connect \\A $w
    connect \\B $w
    connect \\Y \\y
  end
end
module \\top.within
  wire width 4 input 0 \\x
  wire width 4 output 1 \\z
  cell $not $2
    parameter \\A_SIGNED 0
    parameter \\A_WIDTH 4
    parameter \\Y_WIDTH 4
    connect \\A \\x
    connect \\Y \\z
  end
end
"""


@pytest.mark.parametrize(
    ("before", "after", "answer"),
    [
        ("cell $and ", "cell $or ", Answer.SAME),
        ("cell $and ", "cell $xor ", Answer.UNKNOWN),
        ("cell $not ", "cell $pos ", Answer.UNKNOWN),
        ("  connect", "   connect", Answer.UNKNOWN),
    ],
)
def test_of_a_machine_the_module_with_the_change_is_all_that_is_compared(
    before, after, answer, monkeypatch
):
    """Of the top without what stands in it; of two modules at once none."""
    compared = proof._compare

    def not_whole(rtlil, mutant, cut, seconds, **how):
        assert "$not" not in rtlil or "$and" not in rtlil
        return compared(rtlil, mutant, cut, seconds, **how)

    monkeypatch.setattr(proof, "_compare", not_whole)
    assert compare(WITHIN, WITHIN.replace(before, after), whole=False) is answer


def test_a_wrong_reset_value_is_an_error_of_one_module():
    """All else is the same in both texts that are compared."""
    text = to_rtlil(resolve("pe_figna:small"))
    wrong = [site for site in sites_of(text) if site.kind == "reset value wrong"]
    for site in wrong[:: len(wrong) // 4]:
        pair = comparable(text, site)
        assert proof._changed_module(*pair) == site.where.partition(",")[0]


def test_survivors_of_machines_are_proved_too(monkeypatch):
    """Here of a block that is no machine, and has a proof."""
    asked = []

    def noted(rtlil, mutant, whole):
        asked.append(whole)
        return compare(rtlil, mutant, whole=whole)

    for module in ("campaign", "judging"):
        monkeypatch.setattr(f"tilewright.studies.mutations.{module}.compare", noted)
    monkeypatch.setattr("tilewright.studies.mutations.campaign.is_machine", lambda block: True)
    machine = replace(subject(), is_compared_whole=False)
    mutant = judge(machine, of_change("\\write__addr [0] at 0"))
    assert mutant.verdict == Verdict.EQUIVALENT.value
    again = replace(mutant, verdict=Verdict.SURVIVED.value)
    found = prove_survivors(BLOCK, OfBlock(sha256(RTLIL), 1, (again,)))
    assert found.mutants == (mutant,)
    assert asked == [False, False]


def test_memories_are_cut_out_where_both_have_them(monkeypatch):
    """What is written must be the same, what is read may be anything."""
    monkeypatch.setattr("tilewright.studies.mutations.proof.KEPT_BITS", 0)
    assert compare(RTLIL, RTLIL) is Answer.SAME
    wrong = of_change("$eq to $ne")
    assert compare(RTLIL, apply_to(RTLIL, wrong)) is not Answer.SAME


def test_what_no_proof_was_looked_for_is_open():
    """Until one is: here there is one."""
    site = of_change("\\write__addr [0] at 0")
    mutant = judge(subject(), site, prove=False)
    assert mutant.verdict == Verdict.OPEN.value
    kept = []
    found = prove_survivors(BLOCK, OfBlock(sha256(RTLIL), 1, (mutant,)), kept.append)
    assert found.mutants[0].verdict == Verdict.EQUIVALENT.value
    assert kept == [found]


def test_a_simulation_without_an_end_is_stopped():
    mutant = judge(subject(limit=0.01), of_change("$eq to $ne"))
    assert mutant.verdict == Verdict.NO_END.value


def test_a_campaign_goes_on_where_it_stopped(tmp_path):
    first = run_block(BLOCK, 1, None, lambda block, text: subject(), lambda found: None)
    kept = []
    again = run_block(BLOCK, 1, first, lambda block, text: pytest.fail("run again"), kept.append)
    assert again == first and kept == []
    Campaign({BLOCK: first}).write(tmp_path / "record.json")
    assert load_campaign(tmp_path / "record.json").blocks == {BLOCK: first}


def found(change, verdict=Verdict.FOUND):
    return Mutant("bit stuck", "a", change, verdict.value, "")


def test_places_are_done_with_in_any_order():
    """A place that is not done with yet is tried again by the next campaign."""
    tried = Tried(OfBlock("", 3, (found("early"),)))
    tried.add(5, found("late"))
    tried.add(3, found("next"))
    assert (tried.now.drawn, [m.change for m in tried.now.mutants]) == (
        4,
        ["early", "next", "late"],
    )
    tried.add(4, None)
    assert (tried.now.drawn, len(tried.now.mutants)) == (6, 3)


def test_a_stopped_campaign_tries_the_place_that_is_missing():
    names = [(site.kind, site.where, site.change) for site in sample(RTLIL, 3, BLOCK)]
    beyond = tuple(Mutant(*name, "found", "") for name in names[1:])
    before = OfBlock(sha256(RTLIL), 0, beyond)
    after = run_block(BLOCK, 3, before, lambda block, text: subject(), lambda found: None)
    assert (after.mutants[2].kind, after.mutants[2].where, after.mutants[2].change) == names[0]


def test_two_at_a_time_are_the_same_mutants():
    def prepare(block, text):
        return subject()

    one = run_block(BLOCK, 2, None, prepare, lambda found: None)
    with InTime(2, None) as pool:
        assert run_block(BLOCK, 2, None, prepare, lambda found: None, pool) == one


def test_nothing_begins_after_its_time():
    with InTime(1, -1.0) as pool, pytest.raises(OutOfTime):
        pool.submit(print, "late").result()


def test_parts_of_a_campaign_are_put_together():
    here = Campaign({"a": OfBlock("1", 2, (found("x"), found("y")))})
    there = Campaign({"a": OfBlock("1", 3, (found("y"), found("z"))), "b": OfBlock("2", 1, ())})
    whole = merged(here, [there])
    assert list(whole.blocks) == ["a", "b"] and whole.blocks["a"].drawn == 3
    assert [mutant.change for mutant in whole.blocks["a"].mutants] == ["x", "y", "z"]
    later = merged(here, [Campaign({"a": OfBlock("9", 1, (found("z"),))})])
    assert [mutant.change for mutant in later.blocks["a"].mutants] == ["z"]


def test_survivors_meet_a_better_bench_again():
    """Nobody else does, and none where the RTL is no longer theirs."""
    sites = [of_change("\\read__addr: 1'0 to 1'1"), of_change("$eq to $ne")]
    verdicts = (Verdict.SURVIVED, Verdict.EQUIVALENT)
    mutants = tuple(
        Mutant(site.kind, site.where, site.change, verdict.value, "")
        for site, verdict in zip(sites, verdicts, strict=True)
    )
    found = judge_survivors(
        BLOCK, OfBlock(sha256(RTLIL), 2, mutants), lambda block, text: subject()
    )
    assert [m.verdict for m in found.mutants] == [Verdict.FOUND.value, Verdict.EQUIVALENT.value]
    old = OfBlock("0" * 64, 2, mutants)
    assert judge_survivors(BLOCK, old, lambda block, text: pytest.fail("run")) == old


def test_scores_leave_equivalents_out():
    verdicts = ("found", "found: no end", "equivalent", "survived", "open")
    mutants = tuple(Mutant("bit stuck", "a", "b", verdict, "") for verdict in verdicts)
    (score,) = scores(Campaign({BLOCK: OfBlock("", 5, mutants)}))
    assert (score.mutants, score.found, score.equivalent, score.survived) == (5, 2, 1, 1)
    assert score.open == 1
    assert score.share == pytest.approx(2 / 3)


def test_a_file_that_is_no_record_is_refused(tmp_path):
    (tmp_path / "record.json").write_text("[]")
    with pytest.raises(ValueError, match="no record of mutations"):
        load_campaign(tmp_path / "record.json")


def test_the_record_is_of_blocks_that_exist():
    for block in load_campaign().blocks:
        assert resolve(block).block in BLOCKS


def test_every_survivor_has_a_reason():
    """And every reason is of one that no bench found."""
    alive = {
        (block, mutant.where.rpartition(", ")[2], mutant.change): mutant
        for block, found in load_campaign().blocks.items()
        for mutant in found.mutants
        if mutant.verdict in (Verdict.SURVIVED.value, Verdict.OPEN.value)
    }
    assert (ALLOWED | NO_DIFFERENCE | UNSEEN).keys() <= alive.keys()
    for (block, _, _), mutant in alive.items():
        if mutant.verdict == Verdict.SURVIVED.value:
            assert reason_of(block, mutant) != "not explained yet"
