"""The memory image, the aligner and the cycle formulas of Anda."""

import numpy as np
import pytest

from tests.support.claims import claim
from tilewright.golden import bfp, planes
from tilewright.golden.anda import (
    TensorLayout,
    compress_group,
    load,
    quantise,
    store,
    weight_planes,
    weight_scales,
)
from tilewright.golden.anda.cycles import (
    RESULT_LATENCY,
    dot_cycles,
    gemm_cycles,
    group_cycles,
    mxu_schedule,
    tile_cycles,
)
from tilewright.golden.params.anda import AndaApuParams, AndaMxuParams
from tilewright.golden.params.formats import BlockFormat
from tilewright.verify.stimuli.groups import activations


@pytest.mark.parametrize("mantissa_bits", range(1, 17))
@pytest.mark.parametrize("lanes", [1, 3, 16])
def test_every_word_is_where_its_address_says(lanes, mantissa_bits):
    fmt = BlockFormat(group=8, mantissa_bits=mantissa_bits)
    layout = TensorLayout(fmt=fmt, rows=5, length=20, lanes=lanes, base=100, exponent_base=7)
    rng = np.random.default_rng(mantissa_bits)
    bits = activations(rng, 5 * 3, 8, finite=True).reshape(5, 24)[:, :20]
    blocks = bfp.encode(fmt, bits)
    lines, exponents = store(layout, blocks)
    assert lines.shape == (layout.lines, lanes)
    assert exponents.shape == (layout.exponent_lines, lanes)
    words = planes.pack(fmt, blocks)
    for row in range(5):
        for group in range(3):
            line, lane = layout.exponent_address(row, group)
            assert exponents[line - 7, lane] == blocks.exponent[row, group]
            for plane in range(1 + mantissa_bits):
                line, lane = layout.address(row, group, plane)
                assert lines[line - 100, lane] == words[row, group, plane]
    back = load(layout, lines, exponents)
    assert np.array_equal(bfp.decode(fmt, back), bfp.decode(fmt, blocks))


def test_groups_of_the_published_example_take_five_and_six_lines():
    """Figure 10: a group of 4-bit mantissas, then one of 5-bit mantissas."""
    for bits, lines in ((4, 5), (5, 6)):
        layout = TensorLayout(fmt=BlockFormat(group=64, mantissa_bits=bits), rows=1, length=128)
        assert layout.address(0, 1)[0] - layout.address(0, 0)[0] == lines
    assert claim("anda.layout.group") == 64


def test_rows_that_fill_up_are_zero():
    fmt = BlockFormat(group=8, mantissa_bits=4)
    layout = TensorLayout(fmt=fmt, rows=1, length=8, lanes=4)
    lines, exponents = store(layout, bfp.encode(fmt, np.full((1, 8), 0xC000)))
    assert not lines[:, 1:].any() and (exponents[:, 1:] == 1).all()


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda t: t.address(5, 0), "^row 5 is not one of 5$"),
        (lambda t: t.address(0, 3), "^group 3 is not one of 3$"),
        (lambda t: t.address(0, 0, 5), "^plane 5 is not one of 5$"),
        (lambda t: store(t, bfp.encode(t.fmt, np.zeros((4, 20)).astype(int))), "^blocks are"),
        (lambda t: TensorLayout(fmt=t.fmt, rows=0, length=1), "^rows must be at least 1, not 0$"),
    ],
)
def test_addresses_outside_are_refused(call, message):
    layout = TensorLayout(fmt=BlockFormat(group=8, mantissa_bits=4), rows=5, length=20)
    with pytest.raises(ValueError, match=message):
        call(layout)


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


@pytest.mark.parametrize("mantissa_bits", range(1, 17))
def test_aligner_cycle_by_cycle_equals_truncation(mantissa_bits):
    fmt = BlockFormat(group=16, mantissa_bits=mantissa_bits)
    for bits in activations(np.random.default_rng(mantissa_bits), 60, 16, finite=False):
        signs, bit_planes, exponent, saturated = compress_group(bits, mantissa_bits)
        blocks = bfp.encode(fmt, bits, saturate=True)
        assert signs.tolist() == blocks.sign[0].tolist()
        assert exponent == blocks.exponent[0]
        assert saturated == bool(((bits & 0x7FFF) > 0x7BFF).any())
        weight = 1 << np.arange(mantissa_bits)[::-1]
        assert (weight @ bit_planes.astype(int)).tolist() == blocks.mantissa[0].tolist()


def test_a_group_takes_its_sign_word_and_its_planes():
    assert [group_cycles(bits) for bits in (1, 8, 16)] == [2, 9, 17]
    assert dot_cycles(AndaApuParams(), [1, 16, 4], [False, True, True]).tolist() == [
        18 + RESULT_LATENCY,
        23 + RESULT_LATENCY,
    ]


@pytest.mark.parametrize("mantissa_bits", [1, 2, 4, 8, 16])
@pytest.mark.parametrize("weight_beats", [1, 2, 4])
@pytest.mark.parametrize("groups", [1, 2, 3, 8])
@pytest.mark.parametrize("rows", [1, 2, 5, 16])
def test_gemm_formula_is_the_schedule_of_its_tiles(rows, groups, weight_beats, mantissa_bits):
    params = AndaMxuParams(rows=rows, columns=3, planes_per_beat=4 // weight_beats)
    tiles = 6
    last = [g == groups - 1 for _ in range(tiles) for g in range(groups)]
    schedule = mxu_schedule(params, [mantissa_bits] * len(last), last)
    assert len(schedule) == tiles * rows
    inputs = groups * params.group - 5
    ragged = gemm_cycles(params, mantissa_bits, 2 * rows - rows // 2, inputs, 8)
    assert ragged == schedule[-1] + 1
    interval = max(tile_cycles(params, mantissa_bits, inputs), rows)
    assert schedule[-1] - schedule[-1 - rows] == interval


def test_gemm_needs_a_shape():
    with pytest.raises(ValueError, match=r"^rows must be at least 1, not 0$"):
        gemm_cycles(AndaMxuParams(), 4, 0, 64, 16)
