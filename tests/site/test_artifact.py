"""ARTIFACT.md's expected results are what the commands print."""

from pathlib import Path

import pytest

from tests.support.examples import console_examples, run_examples

TEXT = (Path(__file__).parents[2] / "ARTIFACT.md").read_text()


@pytest.mark.parametrize(
    "examples", [pytest.param(examples, id=examples[0][0]) for examples in console_examples(TEXT)]
)
def test_expected_results_of_the_artifact(examples, capsys):
    run_examples(examples, capsys)
