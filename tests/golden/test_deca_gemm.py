"""The compressed multiplication: its order of sums, its operands, and its distance from exact."""

import numpy as np
import pytest

from tilewright.golden.amx import interleave, tdpbf16ps, tdpbssd
from tilewright.golden.bits import decode, encode
from tilewright.golden.deca import (
    SCHEMES,
    compress,
    decompress_tiles,
    gemm,
    gemm_of_tiles,
    resolve_scheme,
    restore,
)
from tilewright.golden.deca import tile_gemm as module
from tilewright.golden.deca.tile_gemm import TileProduct
from tilewright.golden.params.deca import TileConfig
from tilewright.golden.params.formats import BF16, FP32


def problem(rows, columns, batch, seed=0):
    rng = np.random.default_rng(seed)
    weights = rng.normal(0, 0.05, (rows, columns)).astype(np.float32)
    return weights, encode(BF16, rng.normal(0, 1, (columns, batch)))


@pytest.mark.parametrize(
    ("name", "density"), [("bf8", 0.2), ("mxfp4", None), ("nf4", 0.5), ("bf16", 0.3)]
)
@pytest.mark.parametrize("shape", [(32, 96, 16), (17, 70, 3)])
def test_tile_by_tile(name, density, shape):
    """One instruction at a time, tiles taken from the plain matrix."""
    weights, activations = problem(*shape)
    compressed = compress(weights, resolve_scheme(name), density)
    plain = encode(BF16, restore(compressed))
    rows, columns, batch = shape
    expected = np.zeros((rows, batch), np.uint32)
    for top in range(0, rows, 16):
        for left in range(0, columns, 32):
            block = np.zeros((16, 32), np.uint16)
            part = plain[top : top + 16, left : left + 32]
            block[: part.shape[0], : part.shape[1]] = part
            second = np.zeros((32, batch), np.uint16)
            second[: part.shape[1]] = activations[left : left + 32]
            sums = np.zeros((16, batch), np.uint32)
            sums[: len(part)] = expected[top : top + 16]
            result = tdpbf16ps(sums, block, interleave(second, 2))
            expected[top : top + 16] = result[: len(part)]
    assert np.array_equal(gemm(compressed, activations), expected)


def test_it_is_the_product():
    """Small integers: every sum is exact, so the order does not matter and floats agree."""
    rng = np.random.default_rng(3)
    weights, activations = rng.integers(-3, 4, (48, 256)), rng.integers(-50, 50, (256, 5))
    compressed = compress(weights, resolve_scheme("int3,scale=none"), 1.0)
    assert np.array_equal(restore(compressed), weights)
    got = gemm(compressed, encode(BF16, activations))
    assert np.array_equal(decode(FP32, got), weights @ activations)


def test_int8_tiles_give_integers():
    weights, _ = problem(33, 200, 6)
    activations = np.random.default_rng(1).integers(-128, 128, (200, 6), np.int8)
    for name in ("int8_tile", "int4_tile"):
        compressed = compress(weights, SCHEMES[name], 0.5)
        levels = np.rint(restore(compressed) / compressed.row_scales[:, None]).astype(np.int64)
        got = gemm(compressed, activations)
        assert got.dtype == np.int32
        assert np.array_equal(got, levels @ activations)
        assert np.array_equal(
            got[:16],
            tdpbssd(
                np.zeros((16, 6), np.int32),
                levels[:16, 192:].astype(np.int8),
                interleave(activations[192:], 4),
            )
            + levels[:16, :192] @ activations[:192],
        )


def test_decompressed_tiles_from_elsewhere():
    weights, activations = problem(32, 64, 4)
    compressed = compress(weights, SCHEMES["bf8"], 0.5)
    tiles = decompress_tiles(compressed.scheme.lut_image(), compressed.tiles)
    got = gemm_of_tiles(compressed.scheme.config, (32, 64), tiles, activations)
    assert np.array_equal(got, gemm(compressed, activations))


def test_refusals():
    tiles, activations = np.zeros((4, 512), np.uint16), np.zeros((64, 4), np.uint16)
    with pytest.raises(ValueError, match=r"^activations \(63, 4\) do not fit a matrix of \(32, 64"):
        gemm_of_tiles(TileConfig(), (32, 64), tiles, activations[:63])
    with pytest.raises(ValueError, match=r"^tiles \(3, 512\) are not those of a matrix of \(32, 6"):
        gemm_of_tiles(TileConfig(), (32, 64), tiles[:3], activations)


# Fast products, in float32.


def tiles_of(scheme: str, shape: tuple[int, int], density: float | None = None):
    rng = np.random.default_rng(1)
    matrix = compress(0.02 * rng.standard_t(4, shape), resolve_scheme(scheme), density)
    return matrix, decompress_tiles(matrix.scheme.lut_image(), matrix.tiles)


@pytest.mark.parametrize("scale", [1.0, 2.0**-40])
@pytest.mark.parametrize(
    ("scheme", "density"), [("bf16", None), ("bf8", 0.3), ("mxfp4", None), ("int4", None)]
)
def test_fast_products_have_the_same_bits(scheme, density, scale, monkeypatch):
    """A ragged matrix, several tokens, a short piece; the slow way is not taken."""
    shape = (40, 100)
    matrix, tiles = tiles_of(scheme, shape, density)
    config = matrix.scheme.config
    activations = encode(BF16, np.random.default_rng(2).normal(0, scale, (100, 3)))
    want = gemm_of_tiles(config, shape, tiles, activations)
    monkeypatch.setattr(module, "gemm_of_tiles", None)
    monkeypatch.setattr(module, "_PIECE", 64)
    assert np.array_equal(TileProduct(config, shape, tiles)(activations), want)


@pytest.mark.parametrize("scale", [1e-30, 1e38])
def test_range_of_fast_products(scale):
    """Values that AMX flushes, or that may overflow, are computed as the golden model does it."""
    matrix, tiles = tiles_of("bf8", (16, 64))
    config = matrix.scheme.config
    activations = encode(BF16, np.random.default_rng(3).normal(0, scale, (64, 2)))
    want = gemm_of_tiles(config, (16, 64), tiles, activations)
    assert np.array_equal(TileProduct(config, (16, 64), tiles)(activations), want)


def test_subnormal_sums_differ_in_plain_float32(monkeypatch):
    """The check of the range is what keeps the bits: without it they are others."""
    matrix, tiles = tiles_of("bf8", (16, 64))
    config = matrix.scheme.config
    activations = encode(BF16, np.random.default_rng(4).normal(0, 1e-36, (64, 2)))
    want = gemm_of_tiles(config, (16, 64), tiles, activations)
    monkeypatch.setattr(TileProduct, "_safe", lambda *_: True)
    assert not np.array_equal(TileProduct(config, (16, 64), tiles)(activations), want)


def test_refusals_of_fast_products():
    matrix, tiles = tiles_of("bf8", (16, 64))
    product = TileProduct(matrix.scheme.config, (16, 64), tiles)
    with pytest.raises(ValueError, match=r"^activations \(32, 1\) do not fit"):
        product(np.zeros((32, 1), np.uint16))
    with pytest.raises(ValueError, match=r"^tiles \(1, 512\) are not those of a matrix"):
        TileProduct(matrix.scheme.config, (16, 64), tiles[:1])
    whole = resolve_scheme("int8_tile").config
    with pytest.raises(ValueError, match=r"^int8 tiles are multiplied by"):
        TileProduct(whole, (16, 64), np.zeros((1, 1024), np.uint16))
