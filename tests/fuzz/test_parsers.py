"""No input makes a parser fail: it reads it, or refuses it in one line."""

import warnings

import pytest

from tests.support.fuzz import Target, attempt, fuzz
from tests.support.fuzz_targets import NAMES, target


@pytest.mark.parametrize("name", NAMES)
def test_seeds_are_read(name):
    subject = target(name)
    assert [attempt(subject, seed) for seed in subject.seeds] == [None] * len(subject.seeds)


@pytest.mark.parametrize("name", NAMES)
def test_damaged_inputs_are_read_or_refused(name):
    assert len(fuzz(target(name), inputs=200)) > 1


@pytest.mark.full
@pytest.mark.parametrize("name", NAMES)
def test_many_damaged_inputs(name):
    assert None in fuzz(target(name), inputs=100_000, seed=2)


def _changed(name, old, new):
    """The seed of a parser with one piece replaced."""
    (seed,) = target(name).seeds
    assert old in seed
    return seed.replace(old, new, 1)


# These inputs gave a traceback once, or a refusal of two lines.
FOUND = {
    "server settings": lambda: b"a\n=1,a\n=2",
    "Liberty": lambda: b'library ("m{\n  ne""") {\n ',
    "accelerator": lambda: _changed("accelerator", b'pe_record = "', b'pe_record = "a\\nb'),
    "packed model": lambda: _changed("packed model", b'"shape":[128]', b'"shape":[1e999]'),
    "GGUF": lambda: _changed("GGUF", b"output_norm.weight", b"output_norm_weight"),
}


@pytest.mark.parametrize("name", FOUND)
def test_what_was_found_once_is_refused(name):
    assert attempt(target(name), FOUND[name]())


FAULTS = [(b"key", "KeyError"), (b"lines", "is not one line"), (b"warning", "UserWarning")]


@pytest.mark.parametrize(("content", "fault"), FAULTS)
def test_what_is_no_refusal_is_found(content, fault):

    def parse(content):
        match content[:1]:
            case b"k":
                raise KeyError("gone")
            case b"l":
                raise ValueError("one line\nand another")
            case b"w":
                warnings.warn("not refused", stacklevel=1)
            case b"r":
                raise ValueError("refused")

    subject = Target("a parser", parse, (b"refused", content))
    assert attempt(subject, b"refused") == "refused" and attempt(subject, b"") is None
    with pytest.raises(AssertionError, match=fault):
        fuzz(subject, inputs=100)
