"""What README.md says is what the commands do: its examples are run, its table is made again."""

import re
import shlex
from importlib.util import find_spec
from pathlib import Path

import pytest

from golden.params.resolve import BLOCKS
from hw.catalog import CATALOG
from synth.record import load_records
from tests.support.examples import console_examples, run_examples
from tilewright import cli
from tilewright.commands.list import family

ROOT = Path(__file__).parents[2]
README = (ROOT / "README.md").read_text()

# More than a few seconds; other tests do the same on their way.
LONG = ("tilewright report", "tilewright simulate deca")


def case(command, *values):
    marks = [pytest.mark.full] if command.startswith(LONG) else []
    return pytest.param(*values, id=command, marks=marks)


@pytest.mark.parametrize(
    "examples", [case(examples[0][0], examples) for examples in console_examples(README)]
)
def test_examples_of_the_readme(examples, tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    run_examples(examples, capsys)


@pytest.mark.parametrize(
    ("command", "needs"),
    [
        case(command.EXAMPLE, command.EXAMPLE, getattr(command, "EXAMPLE_NEEDS", ""))
        for command in map(cli.load_command, cli.command_names())
    ],
)
def test_examples_of_the_help_texts(command, needs, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    for line in filter(None, (needs, command)):
        assert cli.main(shlex.split(line)[1:]) == 0


def block_table():
    """The table of blocks, from what is there."""
    recorded = {}
    for record in load_records().values():
        recorded.setdefault(record["block"], set()).add(record["technology"])
    lines = ["| block | what it is | RTL | bench | records |", "|---|---|---|---|---|"]
    for cls in sorted(BLOCKS.values(), key=lambda cls: (family(cls), cls.block)):
        technologies = ", ".join(sorted(recorded.get(cls.block, ()))) or "none"
        bench = "yes" if find_spec(f"tilewright.bench.{cls.block}") else "no"
        component = CATALOG.get(cls.block, ":").partition(":")[0]
        rtl = "yes" if component and find_spec(component) else "no"
        lines.append(f"| `{cls.block}` | {cls.summary} | {rtl} | {bench} | {technologies} |")
    return "\n".join(lines)


def test_table_of_blocks():
    table = block_table()
    shown = re.search(r"<!-- blocks -->\n(.*?)\n<!-- end of blocks -->", README, re.DOTALL)
    assert shown is not None
    assert shown[1] == table, f"README.md should have:\n{table}"


def test_import_rule_is_the_one_of_the_architecture():
    architecture = (ROOT / "docs" / "architecture.md").read_text()
    (table,) = re.findall(r"^\| importer \|.*?\n(?!\|)", architecture, re.MULTILINE | re.DOTALL)
    assert table in README
