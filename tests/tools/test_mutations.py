"""Errors planted in RTL: which a bench finds, which are proved to be none, and which survive."""

import json

import pytest

from tilewright.golden.params.resolve import resolve
from tilewright.synth.emit import to_rtlil, to_verilog
from tools.mutations import __main__ as command
from tools.mutations.campaign import Subject
from tools.mutations.equivalence import is_equivalent
from tools.mutations.operators import KINDS, Mutation, apply, mutations, sample

RTLIL = to_rtlil(resolve("queue:tiny"))


def planted(text: str, change: str) -> Mutation:
    return next(mutation for mutation in mutations(text) if mutation.change == change)


def test_samples_have_every_kind_and_only_the_named_lines_change():
    drawn = sample(RTLIL, len(KINDS), "seed")
    assert drawn == sample(RTLIL, len(KINDS), "seed")
    assert {mutation.kind for mutation in drawn} == set(KINDS)
    for mutation in drawn:
        lines = zip(RTLIL.split("\n"), apply(RTLIL, mutation).split("\n"), strict=True)
        changed = {number for number, (before, after) in enumerate(lines) if before != after}
        assert changed == {number for number, _ in mutation.lines}


def test_a_planted_error_is_found():
    verdict, finding = Subject("queue:tiny").judge(planted(RTLIL, "\\read__addr: 1'0 to 1'1"))
    assert verdict == "found" and "got 0x" in finding


@pytest.mark.full
def test_errors_are_planted_in_the_verilog_that_benches_drive():
    """Clock and reset of a block with AXI have other names in its RTLIL."""
    assert Subject("anda_axi:small").verilog == to_verilog(resolve("anda_axi:small"))


@pytest.mark.parametrize(
    ("change", "is_proved"),
    # The other of two addresses counts as 0 either way, for its increment overflows.
    [("\\write__addr [0] at 0", True), ("$eq to $ne", False), ("\\level: 2'00 to 2'01", False)],
)
def test_proofs(change, is_proved):
    mutation = planted(RTLIL, change)
    mutant = apply(RTLIL, mutation)
    assert is_equivalent(RTLIL, mutant, mutation.module) is is_proved
    assert is_equivalent(RTLIL, mutant, mutation.module, cut_top=True) is is_proved


@pytest.mark.parametrize(("zero", "is_proved"), [("4'0000", True), ("1'0", False)])
def test_a_payload_counts_only_while_it_is_offered(zero, is_proved):
    """Another value at power-up shows in what offers the payload, not in the payload."""
    text = to_rtlil(resolve("register_slice:tiny"))
    changed = text.replace(f"\\init {zero}\n", f"\\init {zero[:-1]}1\n")
    assert changed != text
    assert is_equivalent(text, changed, "register_slice__width_4") is is_proved


def test_survivors_are_reported_and_not_judged_again(tmp_path, monkeypatch, capsys):
    outcomes = iter([("survived", ""), ("found", "a"), ("unchanged", "")])
    monkeypatch.setattr(Subject, "judge", lambda self, mutation: next(outcomes))
    path = tmp_path / "outcomes.jsonl"
    monkeypatch.setenv("XDG_CACHE_HOME", "")  # which the command sets for its processes
    monkeypatch.setattr("sys.argv", ["mutations", "queue:tiny", "--places=3", f"-o={path}"])
    assert command.main() == 0
    shown = capsys.readouterr().out
    assert "queue:tiny; survived; " in shown
    assert command.main() == 0
    assert capsys.readouterr().out.split()[-6:] == ["queue:tiny", "3", "2", "1", "0", "1"]
    assert [json.loads(line)["place"] for line in path.read_text().splitlines()] == [0, 1, 2]


def test_scores_are_of_blocks_that_exist():
    for block, row in json.loads(command.SCORES.read_text())["blocks"].items():
        assert resolve(block) and row["planted"] == sum(row[v] for v in command.VERDICTS)
