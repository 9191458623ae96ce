"""Low-bit formats against ml_dtypes, gguf's own arrays, exact fractions and older golden models."""

from fractions import Fraction
from math import floor, log2

import gguf
import ml_dtypes
import numpy as np
import pytest

from tests.support.oracles import DTYPES
from tilewright.golden import bfp
from tilewright.golden.lowbit_table import LOWBIT, lowbit
from tilewright.golden.params.formats import BlockFormat

FNUZ = {"e4m3fnuz": ml_dtypes.float8_e4m3fnuz, "e5m2fnuz": ml_dtypes.float8_e5m2fnuz}
PLAIN = {name: (DTYPES | FNUZ)[name] for name in LOWBIT if name in DTYPES | FNUZ}
MX = [name for name in LOWBIT if name.startswith("mx")]
CODED = [name for name, fmt in LOWBIT.items() if fmt.unpack]


def same(a, b):
    """Equal as float32 patterns, any NaN for any other."""
    nan = np.isnan(a)
    return np.array_equal(nan, np.isnan(b)) and np.array_equal(
        np.asarray(a, np.float32)[~nan].view(np.int32),
        np.asarray(b, np.float32)[~nan].view(np.int32),
    )


def blocks(group, rows=64, seed=0, spread=4):
    rng = np.random.default_rng(seed)
    scale = np.ldexp(1.0, rng.integers(-spread, spread, (rows, 1)))
    return (rng.standard_normal((rows, 2 * group)) * scale).astype(np.float32)


@pytest.mark.parametrize("name", PLAIN)
def test_plain_floats_are_those_of_ml_dtypes(name):
    """Every code, and every 16-bit float as float32; NaN is left out where the format has none."""
    fmt, theirs = LOWBIT[name], PLAIN[name]
    codes = np.arange(1 << fmt.bits, dtype=np.uint8)
    assert same(fmt.decode(codes), codes.view(theirs).astype(np.float32))
    for source in (ml_dtypes.bfloat16, np.float16):
        with np.errstate(invalid="ignore"):
            x = np.arange(1 << 16, dtype=np.uint16).view(source).astype(np.float32)
            want = x.astype(theirs)
        x, want = (a[~np.isnan(x)] for a in (x, want))
        assert same(fmt.decode(fmt.encode(x).codes), want.astype(np.float32))
        assert fmt.encode([np.nan]).codes[0] in (
            np.flatnonzero(np.isnan(fmt.numbers)) if np.isnan(fmt.numbers).any() else [0]
        )


@pytest.mark.parametrize("name", MX)
def test_microscaling_is_its_definition_in_fractions(name):
    fmt = LOWBIT[name]
    numbers = [Fraction(n) if np.isfinite(n) else None for n in fmt.numbers.tolist()]
    top = floor(log2(max(n for n in numbers if n is not None)))
    x = blocks(fmt.group, rows=6)
    x[0] = np.ldexp(1.0, np.arange(64) % 9)  # ties, and a largest magnitude that is a power
    x[1, :32] = 0
    codes, scales, _ = fmt.encode(x)
    for row, per_row, per_block in zip(x.tolist(), codes, scales, strict=True):
        for k, (value, code) in enumerate(zip(row, per_row, strict=True)):
            largest = max(map(abs, row[k // 32 * 32 : k // 32 * 32 + 32]))
            power = floor(log2(largest)) - top if largest else -127
            assert per_block[k // 32] == power + 127
            exact = Fraction(value) / Fraction(2) ** power
            near = min((abs(n - exact), c % 2, c) for c, n in enumerate(numbers) if n is not None)
            assert abs(numbers[code] - exact) == near[0] and (code % 2, near[1]) != (1, 0)


@pytest.mark.parametrize("name", CODED)
def test_gguf_blocks_are_those_of_the_package(name):
    """Random bytes of a block decode, and values are encoded, as by the package gguf."""
    fmt = LOWBIT[name]
    kind = gguf.GGMLQuantizationType[name.removeprefix("gguf_").upper()]
    rng = np.random.default_rng(3)
    data = rng.integers(0, 256, (500, fmt.block_bytes), np.uint8)
    with np.errstate(all="ignore"):
        want = gguf.dequantize(data, kind)
        codes, steps, offsets = fmt.unpack(data)
        each = [np.repeat(a, fmt.group // a.shape[-1], axis=-1) for a in (steps, offsets)]
        if name != "tq2_0":  # whose fourth code means nothing
            assert same(fmt.numbers[codes] * each[0] - each[1] + 0.0, want + 0.0)
    if fmt.pack is None:
        return
    x = blocks(fmt.group, rows=200)
    x[3] = 0
    if name == "gguf_mxfp4":
        x = np.where(np.abs(x) < 1e-3, 0, x)  # its exponents wrap below zero
    assert np.array_equal(fmt.pack(fmt.encode(x)), gguf.quantize(x, kind))


def test_block_floating_point_is_that_of_the_pes():
    x = np.arange(1 << 16, dtype=np.uint16).reshape(-1, 64)
    x = x[(x & 0x7C00 != 0x7C00).all(-1)]
    for group, length in ((64, 7), (32, 8), (32, 3)):
        fmt = lowbit(f"bfp{length}g{group}")
        old = bfp.encode(BlockFormat(group=group, mantissa_bits=length), x)
        codes, scales, _ = fmt.encode(x.view(np.float16))
        want = old.mantissa.astype(int) | old.sign.astype(int) << length
        assert np.array_equal(codes, want.reshape(x.shape))
        assert np.array_equal(scales, old.exponent)


@pytest.mark.parametrize("name", ["int8", "int4", "int8_zero", "nf4", "nvfp4", "int8_row"])
def test_scaled_formats_choose_the_nearest_number(name):
    """No other code is nearer to a value, by exact fractions, with the scale that is stored."""
    fmt = LOWBIT[name]
    x = blocks(fmt.group, rows=1, spread=2)
    codes, scales, tensor = fmt.encode(x)
    steps = fmt.scale_values(scales >> fmt.zero_bits) * float(tensor)
    for (r, c), code in np.ndenumerate(codes):
        step, zero = (
            steps[r, c // fmt.group],
            scales[r, c // fmt.group] & ((1 << fmt.zero_bits) - 1),
        )
        exact = Fraction(float(x[r, c])) / Fraction(float(step)) + int(zero)
        distance = [abs(Fraction(float(n)) - exact) for n in fmt.numbers]
        assert distance[code] == min(distance)
    largest = np.abs(x.reshape(1, 2, -1)).max(-1)
    if not fmt.zero_bits:
        with np.errstate(all="ignore"):
            want = largest / (6 if name == "nvfp4" else fmt.reach) / float(tensor)
        assert np.allclose(fmt.scale_values(scales), want, rtol=0.07)


def test_rules_name_what_encoders_do():
    fmt = LOWBIT["mxfp4"]
    x = np.zeros((1, 32))
    x[0, :4] = 7.5, 0.25, -1.75, -0.0
    one = lambda **rules: [a[0].tolist()[:4] for a in fmt.encode(x, **rules)[:2]]  # noqa: E731
    assert one() == [[7, 0, 12, 8], [127]]
    assert one(rounding="toward-zero") == [[7, 0, 11, 8], [127]]
    assert one(rounding="nearest-away")[0] == [7, 1, 12, 8]
    assert one(scale="ceil") == [[6, 0, 10, 8], [128]]
    assert one(scale="rceil") == one(scale="even") == [[6, 0, 10, 8], [128]]
    assert one(zero="positive")[0][3] == 0 and one(subnormals="flush")[0][1] == 0
    with pytest.raises(ValueError, match=r"^unknown scale 'flor'; did you mean floor"):
        fmt.encode(x, scale="flor")
    with pytest.raises(ValueError, match=r"^unknown rule of mxfp4 'ties'; known: rounding, "):
        fmt.encode(x, ties="even")
    with pytest.raises(ValueError, match=r"^q4_k defines how it is decoded, not how"):
        LOWBIT["q4_k"].encode(np.zeros((1, 256)))
    with pytest.raises(ValueError, match=r"^unknown format 'mxfp5'; did you mean mxfp4"):
        lowbit("mxfp5")
