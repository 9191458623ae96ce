"""The converter's golden model: every group position, both ways, and its cycles."""

import numpy as np
import pytest

from tilewright.golden import bfp
from tilewright.golden.harmonia.converter import convert, cycles
from tilewright.golden.params.formats import BlockFormat
from tilewright.golden.params.harmonia import HarmoniaConverterParams

PAPER = HarmoniaConverterParams()


def block(params, values, *, spatial, short=False):
    count = len(values)
    return {
        "spatial": np.full(count, int(spatial)),
        "short": np.full(count, int(short)),
        "values": values,
    }


@pytest.mark.parametrize("short", [False, True])
def test_rows_are_groups_in_time(short):
    rng = np.random.default_rng(1)
    values = rng.integers(0, 0x7C00, (32, 8)).astype(np.uint16)
    got = convert(PAPER, block(PAPER, values, spatial=False, short=short))
    fmt = BlockFormat(group=32, mantissa_bits=4 if short else 8)
    for row in range(8):
        group = bfp.encode(fmt, values[:, row])
        np.testing.assert_array_equal(got["mantissas"][:, row], group.mantissa[0])
        assert set(got["exponents"][:, row]) == {group.exponent[0]}


@pytest.mark.parametrize("short", [False, True])
def test_columns_are_groups_in_space(short):
    rng = np.random.default_rng(2)
    tokens = rng.integers(0, 0x7C00, (32, 16)).astype(np.uint16)  # tokens x channels
    # The array gives 8 tokens of a channel in each beat, channel after channel, four times.
    values = tokens.reshape(4, 8, 16).swapaxes(1, 2).reshape(64, 8)
    got = convert(PAPER, block(PAPER, values, spatial=True, short=short))
    fmt = BlockFormat(group=32, mantissa_bits=4 if short else 8)
    for channel in range(16):
        group = bfp.encode(fmt, tokens[:, channel])
        beats = slice(4 * channel, 4 * channel + 4)
        np.testing.assert_array_equal(got["mantissas"][beats].reshape(-1), group.mantissa[0])
        assert set(got["exponents"][beats].reshape(-1)) == {group.exponent[0]}


@pytest.mark.parametrize("position", range(32))
@pytest.mark.parametrize("spatial", [False, True])
def test_the_largest_exponent_may_stand_anywhere(position, spatial):
    values = np.full((64, 8) if spatial else (32, 8), 0x0400, np.uint16)  # 2^-14
    beat, row = (position // 8 * 16, position % 8) if spatial else (position, 3)
    values[beat, row] = 0x3C00  # 1
    got = convert(PAPER, block(PAPER, values, spatial=spatial))
    mine = got["exponents"][:4] if spatial else got["exponents"][:, 3]
    others = got["exponents"][4:] if spatial else np.delete(got["exponents"], 3, axis=1)
    assert set(mine.reshape(-1)) == {15} and set(others.reshape(-1)) == {1}


def test_specials_saturate_and_are_told():
    values = np.full((32, 8), 0x3C00, np.uint16)
    values[5, 2] = 0xFC00
    got = convert(PAPER, block(PAPER, values, spatial=False))
    assert got["saturated"].all()
    assert (got["exponents"][0, 2], got["mantissas"][5, 2], got["signs"][5, 2]) == (30, 255, 1)
    clean = convert(PAPER, block(PAPER, np.where(values == 0xFC00, 0, values), spatial=False))
    assert not clean["saturated"].any()


def test_equal_blocks_follow_without_a_gap():
    values = np.zeros((32 * 5, 8), np.uint16)
    assert cycles(PAPER, block(PAPER, values, spatial=False)).tolist() == list(range(33, 33 + 160))


def test_an_unfinished_block_gives_nothing():
    values = np.zeros((31, 8), np.uint16)
    assert len(convert(PAPER, block(PAPER, values, spatial=False))["last"]) == 0
