"""Pages about the performance model show every option of ``llm`` and count the models."""

import argparse
import re

from tests.docs.pages import DOCS
from tests.support.examples import console_examples
from tilewright.cli.commands import llm
from tilewright.sim.families import FAMILIES
from tilewright.sim.models import model_names

PAGE = (DOCS / "model.md").read_text()


def test_every_option_of_llm_is_in_an_example_that_runs():
    pages = [PAGE, *((DOCS / "how-to" / f"{name}.md").read_text() for name in ("serve-a-model",))]
    shown = {
        word
        for page in pages
        for examples in console_examples(page)
        for command, _ in examples
        for word in command.split()
    }
    parser = argparse.ArgumentParser()
    llm.add_arguments(parser)
    # An option with an older name is shown by the first.
    words = [[w for w in a.option_strings if w.startswith("--")] for a in parser._actions]
    assert {names[0] for names in words if names} - shown == {"--help"}


def test_counts_of_the_page():
    (counts,) = re.findall(r"has (\d+) models of (\d+) families", PAGE)
    assert [int(count) for count in counts] == [len(model_names()), len(FAMILIES)]
