"""Coded weights: the way there and back, the bits of their products, and what is refused."""

import numpy as np
import pytest

from tests.support.sparamx import dense_values
from tilewright.golden.bits import decode, encode
from tilewright.golden.deca import compress, gemm, resolve_scheme, restore
from tilewright.golden.params.formats import BF16
from tilewright.golden.params.sparamx import Order, WeightFormat
from tilewright.golden.sparamx import coded, multiply, pack

SCALES = [(name, 1.0) for name, kind in coded.SCALES.items() if kind.groups]
SCHEMES = ("bf8", "mxfp4", "e4m3", "mxfp8_e4m3", "mxfp6_e3m2", "int8,scale=none", "int1,scale=none")


def compressed(name, density, shape=(40, 100), seed=0):
    weights = np.random.default_rng(seed).normal(0, 0.05, shape).astype(np.float32)
    return compress(weights, resolve_scheme(name), density)


def quantised(scale, shape, seed=3):
    """Codes, patterns of scales and the values of codes."""
    rng, kind = np.random.default_rng(seed), coded.SCALES[scale]
    patterns = np.arange(1 << 8 * kind.dtype.itemsize)
    patterns = patterns[np.isfinite(kind.numbers(patterns))]
    if scale != "e4m3":  # all patterns of e4m3, and moderate ones of the others
        numbers = np.abs(kind.numbers(patterns))
        patterns = patterns[(numbers > 2.0**-20) & (numbers < 2.0**10)]
    scales = rng.choice(patterns, (shape[0], -(-shape[1] * kind.groups // 32)))
    codes = rng.integers(0, 16, shape).astype(np.uint8)
    return codes, scales, encode(BF16, rng.normal(0, 1, 16)).astype(np.uint16)


@pytest.mark.parametrize("density", [None, 0.5, 0.05])
@pytest.mark.parametrize("name", SCHEMES)
def test_values_are_the_decompressors(name, density):
    matrix = compressed(name, density)
    weights = coded.pack(matrix)
    assert np.array_equal(dense_values(weights), restore(matrix))
    if resolve_scheme(name).config.code_bits in (4, 8):
        assert weights.size == matrix.tiles.size  # renaming codes costs no byte


@pytest.mark.parametrize("name", ["bf8", "mxfp4"])
def test_products(name):
    matrix = compressed(name, 0.5, (20, 70))
    weights = coded.pack(matrix)
    x = encode(BF16, np.random.default_rng(1).normal(0, 1, (2, 70))).astype(np.uint16)
    tile = coded.multiply(weights, x, Order.TILE)
    assert np.array_equal(tile, gemm(matrix, x.T).T)
    vector = coded.multiply(weights, x, Order.VECTOR)
    exact = dense_values(weights) @ (x.astype(np.uint32) << 16).view(np.float32).T.astype(
        np.float64
    )
    assert np.allclose(vector.view(np.float32), exact.T, rtol=1e-5, atol=1e-6)
    if name == "bf8":  # without scales, and within a segment, the order of packed elements
        elements = encode(BF16, restore(matrix)).astype(np.uint16)
        packed = pack(WeightFormat(sparse=False), elements)
        assert np.array_equal(vector, multiply(packed, x, Order.VECTOR))


@pytest.mark.parametrize(("scale", "tensor_scale"), [*SCALES, ("e4m3", 0.0137)])
@pytest.mark.parametrize("shape", [(20, 70), (3, 32), (17, 2100)])
def test_weights_quantised_elsewhere(scale, tensor_scale, shape):
    codes, scales, values = quantised(scale, shape)
    weights = coded.lay_out(codes, scales, values, scale, tensor_scale)
    kind = coded.SCALES[scale]
    numbers = decode(BF16, values)[codes]
    by_group = kind.numbers(scales).repeat(32 // kind.groups, axis=1)[:, : shape[1]]
    assert np.array_equal(dense_values(weights), numbers * (by_group * tensor_scale))
    x = encode(BF16, np.random.default_rng(1).normal(0, 1, (2, shape[1]))).astype(np.uint16)
    got = coded.multiply(weights, x, Order.VECTOR).view(np.float32)
    exact = decode(BF16, x) @ dense_values(weights).T
    assert np.allclose(got, exact, rtol=1e-5, atol=1e-5 * np.abs(exact).max())
    if scale != "e8m0":
        with pytest.raises(ValueError, match=f"^{scale} scales have vector order only$"):
            coded.multiply(weights, x, Order.TILE)


@pytest.mark.parametrize(
    ("change", "text"),
    [
        ({"scale": "fp16", "tensor_scale": 2.0}, "^fp16 scales take no tensor scale of 2.0$"),
        ({"scale": "e4m3", "tensor_scale": 0.0}, "^e4m3 scales take no tensor scale of 0.0$"),
        ({"scale": "e4m3"}, "^scales of shape .4, 2. are not those of weights of .4, 64.$"),
        ({"scales": np.full((4, 2), 0x7C00)}, "^a scale is NaN or infinite$"),
    ],
)
def test_refusals_of_weights_quantised_elsewhere(change, text):
    codes, scales, values = quantised("fp16", (4, 64))
    given = {"codes": codes, "scales": scales, "values": values, "scale": "fp16"}
    with pytest.raises(ValueError, match=text):
        coded.lay_out(**given | change)


def test_segments_begin_where_their_first_record_does():
    weights = coded.pack(compressed("mxfp4", 0.5, (20, 32 * 130)))
    tiles, step = weights.tiles[1], coded.SEGMENT_TILES
    assert weights.tiles == (2, 130)
    first = [strip * tiles + k for strip in range(2) for k in range(0, tiles, step)]
    assert weights.segment_starts.tolist() == weights.tile_starts[[*first, 2 * tiles]].tolist()
    assert not weights.stream[weights.size :].any() and len(weights.stream) - weights.size == 256


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("int8_tile", r"^int8_tile: int8 tiles have no look-up kernel$"),
        ("bf16", r"^bf16: 16-bit elements need no look-up$"),
        ("nf4", r"^nf4: bf16 scales of groups of 32 have no look-up kernel$"),
        ("mxfp4,group=16", r"^mxfp4,group=16: e8m0 scales of groups of 16 have no look-up"),
    ],
)
def test_refusals(name, text):
    with pytest.raises(ValueError, match=text):
        coded.pack(compressed(name, None))


def test_a_nan_scale_is_refused():
    weights = compressed("mxfp4", None)
    weights.tiles.scales.reshape(-1)[-1] = 0xFF
    with pytest.raises(ValueError, match=r"^mxfp4: a scale is NaN$"):
        coded.pack(weights)


def test_values_with_too_many_high_bytes_are_refused():
    """All finite values of e5m2 have 35 high bytes with bit 5 of the low one clear; 32 fit."""
    book = np.array(resolve_scheme("bf8").book, np.uint16)
    values = (book.astype(np.uint32) << 16).view(np.float32)
    matrix = values[np.isfinite(values)].reshape(8, 31)
    with pytest.raises(ValueError, match=r"^bf8: the values of this matrix have too many high"):
        coded.pack(compress(matrix, resolve_scheme("bf8")))
    small = np.where(np.abs(matrix) < 4096, matrix, 0)
    assert np.array_equal(dense_values(coded.pack(compress(small, resolve_scheme("bf8")))), small)
