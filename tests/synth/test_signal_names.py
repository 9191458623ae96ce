"""Signals made several at a time have names that no version of Python changes."""

import pytest
from amaranth import Signal, tracer

from tilewright.synth.signal_names import names_of_pairs


def _names_of_two():
    first, last = Signal(), Signal(4)
    return first.name, last.name


def test_the_last_of_two_signals_has_its_name():
    with names_of_pairs():
        assert _names_of_two() == ("$signal", "last")


def test_other_names_are_found_as_ever():
    with names_of_pairs():
        alone = Signal()
        head, middle, tail = Signal(), Signal(), Signal.like(alone)
        given, known = Signal(name="a"), Signal(name="b")
        assert (alone.name, head.name, middle.name) == ("alone", "$signal", "$signal")
        assert (tail.name, given.name, known.name) == ("tail", "a", "b")


def test_amaranth_is_as_before_afterwards():
    before = tracer.get_var_name
    with pytest.raises(RuntimeError), names_of_pairs():
        raise RuntimeError
    assert tracer.get_var_name is before
