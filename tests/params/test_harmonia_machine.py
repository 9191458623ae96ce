"""Sizes and encodings of the Harmonia accelerator."""

import pytest

from tilewright.golden.harmonia.precision import key_bits, value_bits
from tilewright.golden.params.harmonia_machine import HarmoniaParams, Memory, Operand

PRESETS = pytest.mark.parametrize("preset", HarmoniaParams.PRESETS)


def test_units_have_the_papers_sizes():
    p = HarmoniaParams()
    assert (p.array.rows, p.array.columns, p.array.group) == (8, 16, 32)
    assert (p.cache.initial, p.cache.local) == (32, 64)
    assert p.vector.lanes == 32 and p.offset.offsets == 8
    assert p.cache.key_bits == p.cache.value_bits == (8, 4)


@PRESETS
def test_rows_are_parts_or_multiples_of_a_line(preset):
    p = HarmoniaParams.preset(preset)
    for memory in Memory:
        bits = p.row_bits(memory)
        assert bits % p.line_bits == 0 or p.line_bits % bits == 0
        assert p.lines(memory, 3) == -(-3 * bits // p.line_bits)


@PRESETS
@pytest.mark.parametrize("operand", [Operand.KEYS, Operand.VALUES])
def test_units_have_low_halves_as_long_as_a_token_has_eight_bits(preset, operand):
    """And units that have them at the same time have places of their own."""
    p = HarmoniaParams.preset(preset)
    size = p.unit(operand)
    for tokens in range(1, 4 * (p.initial + p.local)):
        units = range(-(-tokens // size))
        long = [unit for unit in units if p.has_low(operand, unit, tokens)]
        if operand is Operand.KEYS:
            bits = key_bits(p.cache, tokens)
            want = [u for u in units if (bits[u * size : (u + 1) * size] == 8).any()]
        else:
            want = [u for u in units if value_bits(p.cache, tokens)[u] == 8]
        assert long == want
        places = [p.low_slot(operand, unit) for unit in long]
        assert len(set(places)) == len(places)
        assert all(place < p.low_slots(operand) for place in places)


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        (
            {"rows": 3, "group": 48, "initial": 48, "local": 48},
            "rows must be a power of two, not 3",
        ),
        (
            {"rows": 32, "columns": 64, "group": 64, "initial": 64},
            "rows must be at most 16, not 32",
        ),
        ({"row_groups": 3}, "row_groups must be 1, 2 or 4, at most 4, not 3"),
        ({"row_groups": 4, "line_bytes": 64}, "row_groups must be 1, 2 or 4, at most 2, not 4"),
        ({"columns": 4}, "columns must be at least 8, the rows and a word, not 4"),
        ({"rows": 2, "columns": 2}, "columns must be at least 4, the rows and a word, not 2"),
        ({"group": 8, "initial": 8, "local": 8}, "group must be at least 16, not 8"),
        ({"channels": 100}, "channels must be a multiple of the group 32, not 100"),
        ({"initial": 31}, "initial must be a multiple of the group 32, not 31"),
    ],
)
def test_refused_sizes(changes, message):
    with pytest.raises(ValueError, match=f"^{message}$"):
        HarmoniaParams(**changes)
