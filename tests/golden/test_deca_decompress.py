"""Decompressor: the exact bits of tiles, and the errors of wrong commands."""

import ml_dtypes
import numpy as np
import pytest

from tilewright.golden.bits import decode
from tilewright.golden.deca import (
    SCHEMES,
    check_lengths,
    compress,
    decode_config,
    decode_tiles,
    decompress,
    decompress_tiles,
    resolve_scheme,
)
from tilewright.golden.params.deca import CONFIG_BITS, DecaParams, ScaleKind, TileConfig, TileError
from tilewright.golden.params.formats import BF16
from tilewright.golden.vectors import corners, operands

NO_SCALES = np.zeros((1, 0), np.uint8)
MIN_NORMAL = 2.0**-126


def scaled(kind, elements, scales):
    """decompress() of any many bf16 elements, each with a scale of its own."""
    config = TileConfig(code_bits=16, scale=kind, group=1)
    count = len(elements)
    tiles = -(-count // config.elements)
    padded = [np.resize(x, (tiles, config.elements)) for x in (elements, scales)]
    mask = np.ones((tiles, config.elements), bool)
    return decompress(config, np.zeros(256, np.uint16), mask, *padded).reshape(-1)[:count]


# --- what an element is


def test_elements_are_table_entries_with_their_bits_unchanged():
    config = TileConfig()
    lut = np.resize(corners(BF16), 256)  # NaNs that are not canonical and subnormals included
    codes = np.resize(np.arange(256, dtype=np.uint8), (1, 512))
    got = decompress(config, lut, np.ones((1, 512), bool), codes, NO_SCALES)
    assert got.dtype == np.uint16 and np.array_equal(got[0], lut[codes[0]])


def test_sixteen_bit_elements_pass_the_table_by():
    codes = np.random.default_rng(0).integers(0, 1 << 16, (2, 512), np.uint16)
    lut = np.full(256, 0xDEAD, np.uint16)
    got = decompress(TileConfig(code_bits=16), lut, np.ones((2, 512), bool), codes, NO_SCALES)
    assert np.array_equal(got, codes)


def test_int8_tiles_take_the_low_byte():
    lut = np.random.default_rng(0).integers(0, 1 << 16, 256, np.uint16)
    codes = np.resize(np.arange(256, dtype=np.uint8), (1, 1024))
    config = TileConfig(int8=True)
    got = decompress(config, lut, np.ones((1, 1024), bool), codes, NO_SCALES)
    assert got.dtype == np.uint8 and np.array_equal(got[0], lut[codes[0]] & 0xFF)


@pytest.mark.parametrize(
    ("config", "scale"),
    [
        (TileConfig(sparse=True), None),
        (TileConfig(sparse=True, int8=True), None),
        (TileConfig(sparse=True, code_bits=16), None),
        (TileConfig(sparse=True, scale=ScaleKind.E8M0), 0xFF),  # NaN
        (TileConfig(sparse=True, scale=ScaleKind.BF16), 0xFF80),  # -infinity
    ],
)
def test_where_the_mask_is_0_the_bits_are_0(config, scale):
    rng = np.random.default_rng(1)
    mask = rng.random((3, config.elements)) < 0.5
    lut = np.full(256, 0x8000, np.uint16)  # -0: would show through
    codes = np.full(mask.shape, 0x8000 if config.code_bits == 16 else 3)
    groups = 0 if scale is None else config.elements // config.group
    got = decompress(config, lut, mask, codes, np.full((3, groups), scale or 0))
    assert not got[~mask].any()
    if scale is not None:
        assert (got[mask] == 0x7FC0).all()  # -0 * NaN, -0 * -infinity
    elif not config.int8:
        assert (got[mask] == 0x8000).all()


def test_scales_belong_to_positions_of_the_dense_tile():
    config = TileConfig(sparse=True, scale=ScaleKind.E8M0, group=8)
    rng = np.random.default_rng(1)
    mask = rng.random((1, 512)) < 0.3
    lut = np.full(256, 0x3F80, np.uint16)  # 1.0
    scales = rng.integers(100, 150, (1, 64))
    got = decompress(config, lut, mask, np.zeros((1, 512), int), scales)
    power = np.repeat(scales, 8, axis=1) - 127
    assert np.array_equal(decode(BF16, got), np.where(mask, 2.0**power, 0))


# --- scaling, against other arithmetic


@pytest.mark.parametrize(
    ("element", "scale", "result"),
    [
        (0x3F80, 0, 0x0000),  # 2^-127 is subnormal: flushed
        (0xBF80, 0, 0x8000),  # with its sign
        (0x4000, 0, 0x0080),  # 2 * 2^-127, the smallest normal, is exact
        (0x3FFF, 0, 0x0000),  # has 8 bits: nothing rounds it up to the smallest normal
        (0x3FFE, 0, 0x0000),
        (0x3F80, 254, 0x7F00),  # 2^127
        (0x4000, 254, 0x7F80),  # 2^128: infinity
        (0x0080, 254, 0x4000),  # 2^-126 * 2^127
        (0x007F, 254, 0x0000),  # a subnormal entry is still zero
        (0x807F, 254, 0x8000),
        (0x7F80, 0, 0x7F80),  # infinity stays
        (0x0000, 255, 0x7FC0),  # NaN scale
        (0xFFC1, 127, 0x7FC0),  # NaN entry: the canonical one
    ],
)
def test_e8m0_corners(element, scale, result):
    got = scaled(ScaleKind.E8M0, np.array([element]), np.array([scale]))
    assert got[0] == result, hex(got[0])


def test_bf16_scaling_is_rounded_once():
    rng = np.random.default_rng(7)
    a, b = operands([BF16, BF16], rng, 300_000)
    x, y = (v.view(ml_dtypes.bfloat16).astype(np.float32) for v in (a, b))
    for v in (x, y):
        v[np.abs(v) < MIN_NORMAL] *= 0
    with np.errstate(over="ignore", invalid="ignore"):
        product = x * y  # 16 bits: exact in float32, also below its normal numbers
        expected = product.astype(ml_dtypes.bfloat16)
    bits = expected.view(np.uint16).copy()
    bits[np.isnan(product)] = 0x7FC0
    # Below the smallest normal ml_dtypes has fewer than 8 bits; 8 bits round up from here.
    bits[np.abs(product) < 2.0**-126 - 2.0**-135] &= 0x8000
    assert np.array_equal(scaled(ScaleKind.BF16, a, b), bits)


@pytest.mark.parametrize("kind", [ScaleKind.E8M0, ScaleKind.BF16])
def test_table_entries_scale_as_elements_do(kind, tiles=50):
    rng = np.random.default_rng(4)
    lut = np.concatenate([corners(BF16), rng.integers(0, 1 << 16, 256 - len(corners(BF16)))])
    codes = rng.integers(0, 256, (tiles, 512), np.uint8)
    scales = rng.integers(0, 1 << 8 * kind.bytes, (tiles, 512))
    config = TileConfig(scale=kind, group=1)
    got = decompress(config, lut.astype(np.uint16), np.ones((tiles, 512), bool), codes, scales)
    expected = scaled(kind, lut[codes].reshape(-1), scales.reshape(-1))
    assert np.array_equal(got.reshape(-1), expected)


@pytest.mark.parametrize("name", [*SCHEMES, "book,values=-1/1", "bf16,scale=bf16", "nf4,group=512"])
@pytest.mark.parametrize("density", [None, 0.3])
def test_compressed_weights_come_back_as_the_nearest_values(name, density):
    """The whole way: what is decompressed is bf16(value of the nearest code * scale)."""
    scheme = resolve_scheme(name)
    matrix = np.random.default_rng(0).normal(0, 3, (48, 128)).astype(np.float32)
    compressed = compress(matrix, scheme, density)
    bits = decompress_tiles(scheme.lut_image(), compressed.tiles)
    mask, codes, scales = decode_tiles(compressed.tiles)
    config = compressed.scheme.config
    if config.int8:
        expected = np.array(scheme.book)[codes]
    else:
        patterns = codes if config.code_bits == 16 else np.array(scheme.book, np.uint16)[codes]
        factors = patterns.astype(np.uint16).view(ml_dtypes.bfloat16).astype(np.float32)
        if config.scale is ScaleKind.E8M0:
            factors *= np.repeat(2.0 ** (scales.astype(np.float32) - 127), config.group, axis=1)
        elif config.scale is ScaleKind.BF16:
            values = scales.view(ml_dtypes.bfloat16).astype(np.float32)
            factors *= np.repeat(values, config.group, axis=1)
        expected = factors.astype(ml_dtypes.bfloat16).view(np.uint16)
    assert np.array_equal(bits, np.where(mask, expected, 0))


def test_refused_arrays():
    lut, mask = np.zeros(256, np.uint16), np.ones((2, 512), bool)
    codes = np.zeros((2, 512), np.uint8)
    with pytest.raises(ValueError, match=r"^a table has 256 entries, not shape \(16,\)$"):
        decompress(TileConfig(), lut[:16], mask, codes, NO_SCALES)
    with pytest.raises(ValueError, match=r"^mask \(2, 512\) and codes \(1, 512\) must be \(2, 5"):
        decompress(TileConfig(), lut, mask, codes[:1], NO_SCALES)
    with pytest.raises(ValueError, match=r"^scales \(2, 15\) must be \(2, 16\)$"):
        decompress(TileConfig(scale=ScaleKind.E8M0), lut, mask, codes, np.zeros((2, 15), np.uint8))


# --- errors


def lengths(mask, scale, data):
    return {"mask_length": mask, "scale_length": scale, "data_length": data}


@pytest.mark.parametrize(
    ("config", "given", "nonzeros", "error"),
    [
        (TileConfig(), lengths(0, 0, 512), 512, TileError.OK),
        (TileConfig(), lengths(0, 0, 511), 512, TileError.DATA_LENGTH),
        (TileConfig(), lengths(64, 0, 512), 512, TileError.MASK_LENGTH),
        (TileConfig(), lengths(0, 16, 512), 512, TileError.SCALE_LENGTH),
        (TileConfig(), lengths(1, 1, 1), 512, TileError.MASK_LENGTH),  # the first of three
        (TileConfig(), lengths(0, 1, 1), 512, TileError.SCALE_LENGTH),  # of two
        (TileConfig(sparse=True), lengths(64, 0, 100), 100, TileError.OK),
        (TileConfig(sparse=True), lengths(64, 0, 0), 0, TileError.OK),
        (TileConfig(sparse=True), lengths(64, 0, 99), 100, TileError.DATA_LENGTH),
        (TileConfig(sparse=True), lengths(64, 0, 101), 100, TileError.DATA_LENGTH),
        (TileConfig(sparse=True, code_bits=3), lengths(64, 0, 2), 5, TileError.OK),
        (TileConfig(sparse=True, int8=True), lengths(64, 0, 9), 9, TileError.MASK_LENGTH),
        (TileConfig(sparse=True, int8=True), lengths(128, 0, 9), 9, TileError.OK),
        (TileConfig(scale=ScaleKind.BF16, group=1), lengths(0, 1024, 512), 512, TileError.OK),
        (TileConfig(scale=ScaleKind.E8M0), lengths(0, 32, 512), 512, TileError.SCALE_LENGTH),
    ],
)
def test_lengths(config, given, nonzeros, error):
    assert check_lengths(DecaParams(), config.encode(), given, nonzeros) is error


def test_every_configuration_word():
    meant = {}
    for word in range(1 << CONFIG_BITS):
        config = decode_config(word)
        if config is None:
            assert check_lengths(DecaParams(), word, lengths(0, 0, 0), 0) is TileError.FORMAT
        else:
            assert config.encode() == word
            meant[word] = config
    plain = 9 * 2 * 3 * 10  # codes of 9 widths, sparse or not, three kinds of scale, ten groups
    int8 = 8 * 2 * 10  # no scales, no 16-bit codes
    assert len(meant) == plain + int8


def test_a_machine_whose_scale_queue_is_too_narrow_refuses_the_format():
    config = TileConfig(scale=ScaleKind.BF16, group=1)
    given = lengths(0, 1024, 512)
    for preset, error in (("paper", TileError.OK), ("large", TileError.FORMAT)):
        assert check_lengths(DecaParams.preset(preset), config.encode(), given, 512) is error
