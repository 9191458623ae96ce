"""Conversions of ``tilewright.torch`` against the golden models: the same bits."""

import os

import numpy as np
import pytest
import torch

from benchmarks import torch_bench
from tilewright.golden import bfp
from tilewright.golden.deca import SCHEMES, compress, restore
from tilewright.golden.deca.quantise import Pruner
from tilewright.golden.deca.scheme import resolve_scheme
from tilewright.golden.params.formats import FP16, BlockFormat
from tilewright.torch import convert

# The session of nox that installs PyTorch sets it: ten million groups instead of a slice.
GROUPS = int(os.environ.get("TILEWRIGHT_TORCH_GROUPS", "20000"))
DEVICES = ["cpu", *(["cuda"] if torch.cuda.is_available() else [])]
ALL = np.arange(1 << 16, dtype=np.uint16)  # every 16-bit pattern
BOOKS = sorted(name for name, scheme in SCHEMES.items() if not scheme.config.int8)


@pytest.fixture(params=DEVICES)
def device(request):
    return request.param


def bits_of(values):
    """float32 patterns: signs of zero count."""
    array = values.cpu().numpy() if isinstance(values, torch.Tensor) else values
    return np.ascontiguousarray(array, np.float32).view(np.uint32)


def check_blocks(words, group, length, device):
    fmt = BlockFormat(group=group, mantissa_bits=length)
    wanted = bfp.encode(fmt, words, saturate=True)
    halves = torch.from_numpy(words.view(np.float16)).to(device)
    parts = convert.block_parts(halves, group, length)
    assert np.array_equal(parts.sign.cpu().numpy(), wanted.sign)
    assert np.array_equal(parts.mantissa.cpu().numpy(), wanted.mantissa)
    assert np.array_equal(parts.exponent.cpu().numpy(), wanted.exponent)
    exact = torch_bench.golden_blocks(words, group, length)
    flat = parts.values(length).flatten(-2)[..., : words.shape[-1]]
    for got in (convert.to_block_float(halves, group, length), flat):
        assert np.array_equal(bits_of(got), exact)


def test_every_conversion_has_the_golden_bits(device):
    """Every pattern, random groups, integer weights and all schemes."""
    rows = torch_bench.check(device, GROUPS, tick=lambda _: None)
    assert rows[-1]["groups"] == GROUPS
    assert {f"scheme {name}, every finite bf16 pattern" for name in BOOKS} < {
        row["conversion"] for row in rows
    }
    for row in rows:
        assert row["elements"] > 0 == row["differ"], row


@pytest.mark.parametrize(("group", "length"), [(64, 7), (32, 1), (8, 16)])
def test_parts_of_block_floating_point(group, length, device):
    check_blocks(ALL.reshape(-1, group), group, length, device)


def test_short_groups_are_padded(device):
    words = np.random.default_rng(2).integers(0, 1 << 16, (50, 100), dtype=np.uint16)
    check_blocks(words, 32, 6, device)


def test_float32_and_bf16_are_rounded_to_fp16_first(device):
    rng = np.random.default_rng(3)
    values = (rng.standard_normal((300, 64)) * np.exp2(rng.integers(-30, 20, (300, 64)))).astype(
        "f4"
    )
    with np.errstate(over="ignore"):
        words = values.astype(np.float16).view(np.uint16)
    fmt = BlockFormat(group=64, mantissa_bits=9)
    wanted = bfp.decode(fmt, bfp.encode(fmt, words, saturate=True))
    got = convert.to_block_float(torch.from_numpy(values).to(device), 64, 9)
    assert np.array_equal(bits_of(got), bits_of(wanted.astype(np.float32)))
    narrow = torch.from_numpy(values).bfloat16()
    both = [convert.to_block_float(x.to(device), 64, 9) for x in (narrow, narrow.float())]
    assert torch.equal(*both)


def test_scales_are_rounded_once():
    """Midpoints of fp16 that a detour through float32 would round to the wrong side."""
    rng = np.random.default_rng(5)
    base = rng.integers(1, 0x7BFF, 4000).astype(np.uint16).view(np.float16).astype(np.float64)
    step = np.spacing(base.astype(np.float16)).astype(np.float64)
    values = np.concatenate([base + step / 2 * (1 + s) for s in (0.0, 2.0**-30, -(2.0**-30))])
    got = convert._nearest_fp16(torch.from_numpy(values)).numpy()
    assert np.array_equal(got, values.astype(np.float16).astype(np.float64))
    assert FP16.max_finite_bits == 0x7BFF


def bf16_matrix(rng, rows, columns):
    scale = np.exp2(rng.integers(-24, 12, (rows, 1)))
    return (rng.standard_normal((rows, columns)) * scale).astype(np.float32)


def scheme_values(scheme, matrix, device, density=None):
    """The matrix by ``tilewright.torch``, tile by tile."""
    tensor = torch.from_numpy(matrix).to(device)
    return convert.compressed_weights(convert.book_of(scheme, device), tensor, density)


@pytest.mark.parametrize(
    "text", ["mxfp4,group=64", "int3,group=512", "int8,scale=e8m0", "book,values=-1/-0.2/0/0.3/2"]
)
def test_other_groups_and_books(text, device):
    matrix = bf16_matrix(np.random.default_rng(8), 30, 100)  # ragged
    scheme = resolve_scheme(text)
    wanted = restore(compress(matrix, scheme))
    assert np.array_equal(bits_of(scheme_values(scheme, matrix, device)), bits_of(wanted))


@pytest.mark.parametrize("density", [0.0, 0.05, 0.5, 0.93, 1.0])
def test_pruned_schemes(density, device):
    rng = np.random.default_rng(9)
    matrix = np.round(bf16_matrix(rng, 40, 90), 1)  # many equal magnitudes
    for name in ("bf8", "mxfp4", "int4"):
        scheme = SCHEMES[name]
        wanted = restore(compress(matrix, scheme, density))
        got = scheme_values(scheme, matrix, device, density)
        assert np.array_equal(bits_of(got), bits_of(wanted)), name


def test_pruning_keeps_the_golden_ones(device):
    rng = np.random.default_rng(10)
    tiles = rng.integers(-3, 4, (20, 512)).astype(np.float32)
    for keep in (0, 1, 17, 5000, 20 * 512):
        wanted = Pruner.exact(lambda: iter([tiles]), keep).mask(tiles)
        got = convert.prune_mask(torch.from_numpy(tiles).to(device), keep)
        assert np.array_equal(got.cpu().numpy(), wanted), keep


def test_straight_through_has_the_converted_values_and_the_gradient():
    values = torch.randn(3, 64, requires_grad=True)
    converted = convert.to_block_float(values.detach(), 64, 4)
    result = convert.straight_through(values, converted)
    assert torch.equal(result, converted)
    (result * torch.arange(64.0)).sum().backward()
    assert torch.equal(values.grad, torch.arange(64.0).expand(3, 64))
