"""The memory image of Anda, and the cycles of a dot product."""

import numpy as np
import pytest

from tests.support.claims import claim
from tilewright.golden import bfp, planes
from tilewright.golden.anda.cycles import RESULT_LATENCY, dot_cycles, group_cycles
from tilewright.golden.anda.image import TensorLayout, load, store, weight_planes, weight_scales
from tilewright.golden.params.anda import AndaApuParams
from tilewright.golden.params.formats import BlockFormat
from tilewright.golden.weights import quantise
from tilewright.verify.stimuli.tensors import activations


@pytest.mark.parametrize("mantissa_bits", range(1, 17))
@pytest.mark.parametrize("lanes", [1, 3, 16])
def test_a_line_has_one_plane_of_a_group_of_every_lane(lanes, mantissa_bits):
    fmt = BlockFormat(group=8, mantissa_bits=mantissa_bits)
    layout = TensorLayout(fmt=fmt, rows=5, length=20, lanes=lanes)
    rng = np.random.default_rng(mantissa_bits)
    bits = activations(rng, 5 * 3, 8, finite=True).reshape(5, 24)[:, :20]
    blocks = bfp.encode(fmt, bits)
    lines, exponents = store(layout, blocks)
    words = planes.pack(fmt, blocks)
    for row in range(5):
        lane = row % lanes
        for group in range(3):
            line = row // lanes * 3 + group
            assert exponents[line, lane] == blocks.exponent[row, group]
            taken = slice(line * (1 + mantissa_bits), (line + 1) * (1 + mantissa_bits))
            assert lines[taken, lane].tolist() == words[row, group].tolist()
    back = load(layout, lines, exponents)
    assert np.array_equal(bfp.decode(fmt, back), bfp.decode(fmt, blocks))


def test_groups_of_the_published_example_take_five_and_six_lines():
    """Figure 10: a group of 4-bit mantissas, then one of 5-bit mantissas."""
    for bits, lines in ((4, 5), (5, 6)):
        fmt = BlockFormat(group=64, mantissa_bits=bits)
        assert TensorLayout(fmt=fmt, rows=1, length=128).group_lines == lines
    assert claim("anda.layout.group") == 64


def test_rows_that_fill_up_are_zero():
    fmt = BlockFormat(group=8, mantissa_bits=4)
    layout = TensorLayout(fmt=fmt, rows=1, length=8, lanes=4)
    lines, exponents = store(layout, bfp.encode(fmt, np.full((1, 8), 0xC000)))
    assert not lines[:, 1:].any() and (exponents[:, 1:] == 1).all()


def test_refused_layouts():
    fmt = BlockFormat(group=8, mantissa_bits=4)
    with pytest.raises(ValueError, match=r"^rows must be at least 1, not 0$"):
        TensorLayout(fmt=fmt, rows=0, length=1)
    with pytest.raises(ValueError, match=r"^blocks are \(4, 3, 8\), not \(5, 3, 8\)$"):
        layout = TensorLayout(fmt=fmt, rows=5, length=20)
        store(layout, bfp.encode(fmt, np.zeros((4, 20), np.uint16)))


def test_weight_planes_hold_the_bits_of_the_weights():
    rng = np.random.default_rng(2)
    weights = quantise(rng.standard_normal((5, 20)), bits=4, group=16)
    lines = weight_planes(weights, 8, lanes=2).reshape(3, 3, 4, 2)  # blocks, groups, planes, lanes
    scale_lines = weight_scales(weights, 8, lanes=2).reshape(3, 3, 2)
    for output in range(6):
        for element in range(24):
            words = lines[output // 2, element // 8, :, output % 2].tolist()
            bits = [(word >> (element % 8)) & 1 for word in words]
            value = -8 * bits[0] + 4 * bits[1] + 2 * bits[2] + bits[3]
            inside = output < 5 and element < 20
            assert value == (weights.values[output, element] if inside else 0)
            scale = scale_lines[output // 2, element // 8, output % 2]
            assert scale == (weights.scales[output, element // 16] if output < 5 else 0)


def test_weight_scales_need_a_multiple():
    with pytest.raises(ValueError, match=r"^a weight group of 16 is no multiple"):
        weight_scales(quantise(np.zeros((1, 16)), group=16), 12)


def test_a_group_takes_its_sign_word_and_its_planes():
    assert [group_cycles(bits) for bits in (1, 8, 16)] == [2, 9, 17]
    assert dot_cycles(AndaApuParams(), [1, 16, 4], [False, True, True]).tolist() == [
        18 + RESULT_LATENCY,
        23 + RESULT_LATENCY,
    ]
