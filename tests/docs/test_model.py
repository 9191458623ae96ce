"""The page about the performance model: its examples run, and it counts what there is."""

import re

import pytest

from tests.docs.pages import DOCS
from tests.support.examples import blocks, console_examples, run_examples
from tilewright.sim.families import FAMILIES
from tilewright.sim.models import model_names

PAGE = (DOCS / "model.md").read_text()


@pytest.mark.parametrize("examples", console_examples(PAGE), ids=lambda block: block[0][0])
def test_commands_of_the_page(examples, capsys):
    run_examples(examples, capsys)


def test_programs_of_the_page():
    names = {}
    for program in blocks(PAGE, "python"):
        exec(compile(program, "docs/model.md", "exec"), names)
    assert len(names["rows"]) == 64


def test_counts_of_the_page():
    (counts,) = re.findall(r"has (\d+) models of (\d+) families", PAGE)
    assert [int(count) for count in counts] == [len(model_names()), len(FAMILIES)]
