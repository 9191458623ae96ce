"""What README.md says is what the commands do: its examples are run, its counts are compared."""

import re
import shlex
from dataclasses import replace
from pathlib import Path

import pytest

from tests.support.examples import blocks, console_examples, run_examples, torch_or_skip
from tilewright import cli
from tilewright.claims import Compare, papers
from tilewright.claims.registry import ClaimClass
from tilewright.claims.scoreboard import Summary, class_counts, evaluate, summary
from tilewright.golden.params.resolve import BLOCKS
from tilewright.hw.catalog import CATALOG
from tilewright.verify.benches import BENCHES

ROOT = Path(__file__).parents[2]
DESIGNS = ("deca", "anda", "harmonia", "sparamx")  # in the order of the table
README = (ROOT / "README.md").read_text()

# More than a few seconds; other tests do the same on their way.
LONG = (
    "tilewright report",
    *(f"tilewright simulate {machine}" for machine in ("anda", "deca", "harmonia")),
)


def case(command, *values):
    marks = [pytest.mark.full] if command.startswith(LONG) else []
    return pytest.param(*values, id=command, marks=marks)


@pytest.mark.parametrize(
    "examples", [case(examples[0][0], examples) for examples in console_examples(README)]
)
def test_examples_of_the_readme(examples, tmp_path, monkeypatch, capsys):
    torch_or_skip(examples[0][0])
    monkeypatch.chdir(tmp_path)
    run_examples(examples, capsys)


@pytest.mark.parametrize(
    ("command", "needs"),
    [
        case(command.EXAMPLE, command.EXAMPLE, getattr(command, "EXAMPLE_NEEDS", ""))
        for command in (cli.load_command(*words) for words in cli.all_commands())
    ],
)
def test_examples_of_the_help_texts(command, needs, tmp_path, monkeypatch):
    torch_or_skip(command)
    monkeypatch.chdir(tmp_path)
    for line in filter(None, (needs, command)):
        assert cli.main(shlex.split(line)[1:]) == 0


def test_counts_of_the_designs():
    rows = re.findall(r"\| (\d+) of (\d+) \| (\d+) of (\d+) \|$", README, re.MULTILINE)
    counts = summary(evaluate())
    assert sorted(counts) == sorted(DESIGNS) == sorted(papers())
    for row, count in zip(rows, map(counts.get, DESIGNS), strict=True):
        shown = (count.within, count.evaluated, count.others_within, count.others)
        assert tuple(map(int, row)) == shown


def test_every_block_has_a_component_and_a_bench():
    """So the README says."""
    assert set(BLOCKS) == set(CATALOG) == set(BENCHES)


def test_program_of_the_readme():
    (program,) = blocks(README, "python")
    names = {}
    exec(compile(program, "README.md", "exec"), names)
    assert 0 < abs(names["error"]).max() < 5
    assert names["rate"] > 1
    assert "module float_mul__latency_2" in names["verilog"]


def test_classes_are_counted_apart_and_duplicates_once():
    result = replace(evaluate(["sparamx"])["sparamx"][0], compare=Compare.RELATIVE)
    kept = [
        replace(result, verdict=verdict, claim_class=claim_class, same_as=same_as)
        for verdict in ("reproduced", "off")
        for claim_class in (ClaimClass.PREDICTION, ClaimClass.RTL, ClaimClass.BOUND)
        for same_as in ("", "another")
    ]
    assert Summary.of(kept) == Summary(
        evaluated=4,
        within=2,
        reproduced=2,
        trends=0,
        trends_within=0,
        others=2,
        others_within=1,
        duplicates=6,
        not_modelled=0,
    )
    bounds = next(c for c in class_counts(kept) if c.name is ClaimClass.BOUND)
    assert (bounds.evaluated, bounds.within, bounds.duplicates) == (2, 1, 2)


def test_import_rule_is_the_one_of_the_architecture():
    architecture = (ROOT / "docs" / "architecture.md").read_text()
    (table,) = re.findall(r"^\| importer \|.*?\n(?!\|)", architecture, re.MULTILINE | re.DOTALL)
    assert table in README
