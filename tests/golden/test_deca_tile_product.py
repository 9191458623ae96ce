"""Products in float32 have the bits of the AMX golden model, tile for tile."""

import numpy as np
import pytest

from tilewright.golden.bits import encode
from tilewright.golden.deca import compress, decompress_tiles, gemm_of_tiles, resolve_scheme
from tilewright.golden.deca import tile_gemm as module
from tilewright.golden.deca.tile_gemm import TileProduct
from tilewright.golden.params.formats import BF16


def _matrix(scheme: str, shape: tuple[int, int], density: float | None = None):
    rng = np.random.default_rng(1)
    matrix = compress(0.02 * rng.standard_t(4, shape), resolve_scheme(scheme), density)
    return matrix, decompress_tiles(matrix.scheme.lut_image(), matrix.tiles)


@pytest.mark.parametrize("scale", [1.0, 2.0**-40])
@pytest.mark.parametrize(
    ("scheme", "density"), [("bf16", None), ("bf8", 0.3), ("mxfp4", None), ("int4", None)]
)
def test_bits(scheme, density, scale, monkeypatch):
    """A ragged matrix, several tokens, a short piece; the slow way is not taken."""
    shape = (40, 100)
    matrix, tiles = _matrix(scheme, shape, density)
    config = matrix.scheme.config
    activations = encode(BF16, np.random.default_rng(2).normal(0, scale, (100, 3)))
    want = gemm_of_tiles(config, shape, tiles, activations)
    monkeypatch.setattr(module, "gemm_of_tiles", None)
    monkeypatch.setattr(module, "_PIECE", 64)
    assert np.array_equal(TileProduct(config, shape, tiles)(activations), want)


@pytest.mark.parametrize("scale", [1e-30, 1e38])
def test_range(scale):
    """What AMX would flush, or what may overflow, is computed as the golden model does it."""
    matrix, tiles = _matrix("bf8", (16, 64))
    config = matrix.scheme.config
    activations = encode(BF16, np.random.default_rng(3).normal(0, scale, (64, 2)))
    want = gemm_of_tiles(config, (16, 64), tiles, activations)
    assert np.array_equal(TileProduct(config, (16, 64), tiles)(activations), want)


def test_subnormal_sums_differ_in_plain_float32(monkeypatch):
    """The check of the range is what keeps the bits: without it they are others."""
    matrix, tiles = _matrix("bf8", (16, 64))
    config = matrix.scheme.config
    activations = encode(BF16, np.random.default_rng(4).normal(0, 1e-36, (64, 2)))
    want = gemm_of_tiles(config, (16, 64), tiles, activations)
    monkeypatch.setattr(TileProduct, "_safe", lambda *_: True)
    assert not np.array_equal(TileProduct(config, (16, 64), tiles)(activations), want)


def test_refusals():
    matrix, tiles = _matrix("bf8", (16, 64))
    product = TileProduct(matrix.scheme.config, (16, 64), tiles)
    with pytest.raises(ValueError, match=r"^activations \(32, 1\) do not fit"):
        product(np.zeros((32, 1), np.uint16))
    with pytest.raises(ValueError, match=r"^tiles \(1, 512\) are not those of a matrix"):
        TileProduct(matrix.scheme.config, (16, 64), tiles[:1])
    whole = resolve_scheme("int8_tile").config
    with pytest.raises(ValueError, match=r"^int8 tiles are multiplied by"):
        TileProduct(whole, (16, 64), np.zeros((1, 1024), np.uint16))
