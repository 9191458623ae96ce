"""tilewright.golden.planes: words built bit by bit from the definition, and there and back."""

import numpy as np
import pytest

from tilewright.golden import bfp, planes
from tilewright.golden.params.formats import BlockFormat


def some_blocks(fmt, shape, seed=1):
    rng = np.random.default_rng(seed)
    data = rng.standard_normal(shape).astype(np.float16).view(np.uint16)
    return bfp.encode(fmt, data)


@pytest.mark.parametrize("mantissa_bits", [1, 4, 8, 9, 16])
@pytest.mark.parametrize("group", [1, 5, 8, 13, 32, 33, 64])
def test_words_hold_sign_then_planes_from_the_top(group, mantissa_bits):
    fmt = BlockFormat(group=group, mantissa_bits=mantissa_bits)
    blocks = some_blocks(fmt, (2, 3 * group + 1))
    words = planes.pack(fmt, blocks)
    assert words.shape == (2, 4, 1 + mantissa_bits)
    for row, g in np.ndindex(2, 4):
        columns = [blocks.sign[row, g].tolist()]
        mantissa = blocks.mantissa[row, g].tolist()
        columns += [[m >> k & 1 for m in mantissa] for k in reversed(range(mantissa_bits))]
        want = [sum(bit << i for i, bit in enumerate(column)) for column in columns]
        assert words[row, g].tolist() == want


@pytest.mark.parametrize(("group", "mantissa_bits"), [(64, 8), (32, 4), (13, 11), (64, 16), (1, 1)])
def test_unpack_undoes_pack(group, mantissa_bits):
    fmt = BlockFormat(group=group, mantissa_bits=mantissa_bits)
    blocks = some_blocks(fmt, (3, 5, 150))
    back = planes.unpack(fmt, planes.pack(fmt, blocks), blocks.exponent, blocks.length)
    for name in ("sign", "mantissa", "exponent"):
        got, want = getattr(back, name), getattr(blocks, name)
        assert np.array_equal(got, want) and got.dtype == want.dtype
    assert np.array_equal(bfp.decode(fmt, back), bfp.decode(fmt, blocks))


def test_refuses_groups_wider_than_a_word():
    fmt = BlockFormat(group=65, mantissa_bits=8)
    with pytest.raises(ValueError, match=r"^bit planes hold groups of at most 64, not 65$"):
        planes.pack(fmt, some_blocks(fmt, (65,)))


def test_refuses_another_number_of_planes():
    fmt = BlockFormat(group=8, mantissa_bits=4)
    with pytest.raises(ValueError, match=r"^bfp4g8 has 5 planes, not 4$"):
        planes.unpack(fmt, np.zeros((2, 4), np.uint8), np.ones(2, np.uint8), 16)
