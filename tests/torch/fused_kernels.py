"""The Triton kernels against the plain conversions; ``test_fused.py`` runs this file."""

import numpy as np
import pytest
import torch

from tilewright.golden.deca import SCHEMES
from tilewright.torch import convert, fused

DEVICE = "cuda" if torch.cuda.is_available() else "cpu"
pytestmark = pytest.mark.filterwarnings("ignore::RuntimeWarning", "ignore::DeprecationWarning")
ALL = torch.arange(-(1 << 15), 1 << 15, dtype=torch.int16)
DTYPES = (torch.float16, torch.bfloat16, torch.float32)


def same(got, wanted):
    return torch.equal(got.float().cpu().view(torch.int32), wanted.float().view(torch.int32))


def matrices(dtype):
    """Every pattern of 16 bits, in order and shuffled; random float32 of many magnitudes."""
    rng = np.random.default_rng(1)
    if dtype == torch.float32:
        scale = np.exp2(rng.integers(-30, 20, (64, 512)))
        yield torch.from_numpy((rng.standard_normal((64, 512)) * scale).astype(np.float32))
    else:
        yield ALL.view(dtype).reshape(-1, 512)
        yield ALL[torch.from_numpy(rng.permutation(1 << 16))].view(dtype).reshape(-1, 512)


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
@pytest.mark.parametrize(("group", "length"), [(64, 7), (32, 8), (32, 1), (16, 11), (8, 16)])
def test_block_floating_point(dtype, group, length):
    for values in matrices(dtype):
        wanted = convert.to_block_float(values, group, length)
        for out in (torch.float32, torch.bfloat16):
            got = fused.block_float(values.to(DEVICE), group, length, out)
            assert got.dtype == out and same(got, wanted.to(out))


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
@pytest.mark.parametrize(("bits", "group"), [(4, 128), (8, 64), (2, 16), (3, 128)])
def test_integer_weights(dtype, bits, group):
    rng = np.random.default_rng(2)
    scale = np.exp2(rng.integers(-10, 4, (64, 1)))
    weights = torch.from_numpy(rng.standard_normal((64, 512)) * scale).to(dtype)
    weights[3] = 0
    top = (1 << (bits - 1)) - 1
    for row in range(4, 40):  # midpoints: halves of a scale of 11 bits, as far as 16 bits have them
        halves = torch.from_numpy(rng.integers(-2 * top, 2 * top + 1, 512)) / 2
        weights[row] = (halves * float(np.float16(rng.uniform(1, 2)))).to(dtype)
        weights[row, ::group] = weights[row, ::group].sign() * 0 + top * 1.0
    wanted = convert.quantise_integers(weights, bits, group).dequantised()
    for out in (torch.float32, torch.bfloat16):
        got = fused.integers(weights.to(DEVICE), bits, group, out)
        assert same(got, wanted.to(out))


@pytest.mark.parametrize("name", sorted(n for n in SCHEMES if n.startswith("mxfp")))
@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float32], ids=str)
def test_formats_of_the_specification(name, dtype):
    book = convert.book_of(SCHEMES[name])
    assert book.mini is not None
    for values in matrices(dtype):
        values = torch.where(torch.isfinite(values), values, 0)
        wanted = convert.along_inputs(book, values)
        got = fused.minifloat(values.to(DEVICE), book.group, book.mini, torch.float32)
        assert same(got, wanted)


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
def test_short_last_groups(dtype):
    weights = torch.randn(8, 200, generator=torch.Generator().manual_seed(1)).to(dtype)
    wanted = convert.quantise_integers(weights, 4, 128).dequantised()
    assert same(fused.integers(weights.to(DEVICE), 4, 128, torch.float32), wanted)
    wanted = convert.to_block_float(weights, 64, 7)
    assert same(fused.block_float(weights.to(DEVICE), 64, 7, torch.float32), wanted)


def test_where_kernels_serve():
    assert fused.fits(64) and not fused.fits(48) and not fused.fits(2048)
    assert not fused.usable(torch.zeros(4, 64), 64)  # not on a GPU
