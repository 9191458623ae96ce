"""No input makes a parser fail: it reads it, or refuses it in one line.

A few seconds here; ``python -m tests.support.fuzz_campaign`` tries a million inputs of each.
"""

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tests.support.fuzz import Finding, Target, attempt, edited, fuzz
from tests.support.fuzz_campaign import merge_into
from tests.support.fuzz_targets import NAMES, target

NUMBER = st.integers(0, 1 << 20)
EDITS = st.lists(st.tuples(NUMBER, NUMBER, NUMBER, NUMBER), max_size=4)


@pytest.mark.parametrize("name", NAMES)
def test_seeds_are_read(name):
    subject = target(name)
    assert [attempt(subject, seed) for seed in subject.seeds] == [None] * len(subject.seeds)


@pytest.mark.parametrize("name", NAMES)
@settings(max_examples=25, derandomize=True, suppress_health_check=list(HealthCheck))
@given(edits=EDITS, which=NUMBER)
def test_damaged_inputs_are_read_or_refused(name, edits, which):
    subject = target(name)
    seed = subject.seeds[which % len(subject.seeds)]
    outcome = attempt(subject, edited(seed, edits, seed))
    assert not isinstance(outcome, Finding), str(outcome)


@pytest.mark.full
@pytest.mark.parametrize("name", NAMES)
def test_many_damaged_inputs(name):
    tally = fuzz(target(name), seed=2, goes_on=lambda tally: tally.inputs < 100_000)
    assert not tally.findings, str(tally.findings[0])
    assert tally.read and tally.refusals


def _changed(name, old, new):
    """The seed of a parser with one piece replaced."""
    (seed,) = target(name).seeds
    assert old in seed
    return seed.replace(old, new, 1)


# What campaigns have found, by parser: these inputs gave a traceback, or a refusal of two lines.
FOUND = {
    "server settings": lambda: b"a\n=1,a\n=2",
    "Liberty": lambda: b'library ("m{\n  ne""") {\n ',
    "accelerator": lambda: _changed("accelerator", b'pe_record = "', b'pe_record = "a\\nb'),
    "packed model": lambda: _changed("packed model", b'"shape":[128]', b'"shape":[1e999]'),
    "GGUF": lambda: _changed("GGUF", b"output_norm.weight", b"output_norm_weight"),
}


@pytest.mark.parametrize("name", FOUND)
def test_what_was_found_once_is_refused(name):
    assert isinstance(attempt(target(name), FOUND[name]()), str)


def test_what_is_no_refusal_is_found():
    """Another exception, a warning, and text of two lines."""

    def parse(content):
        if content.startswith(b"k"):
            raise KeyError("gone")
        if content.startswith(b"n"):
            raise ValueError("one line\nand another")
        if content.startswith(b"r"):
            raise ValueError("refused")

    subject = Target("a parser", parse, (b"r", b"k", b"n", b""))
    outcomes = [attempt(subject, seed) for seed in subject.seeds]
    assert outcomes[0] == "refused" and outcomes[3] is None
    assert [type(outcome) for outcome in outcomes[1:3]] == [Finding, Finding]
    tally = fuzz(subject, seed=1, goes_on=lambda tally: tally.inputs < 200)
    assert {finding.error[:8] for finding in tally.findings} == {"KeyError", "ValueErr"}


def test_parts_of_a_campaign_are_put_together():
    """Each part is a copy of the record that some parsers got further in."""
    record = {"targets": {"a": {"runs": 1}, "b": {"runs": 1}}}
    merge_into(record, {"targets": {"a": {"runs": 2}, "b": {"runs": 1}}})
    merge_into(record, {"targets": {"a": {"runs": 1}, "b": {"runs": 2}, "c": {"runs": 1}}})
    assert record == {"targets": {"a": {"runs": 2}, "b": {"runs": 2}, "c": {"runs": 1}}}
