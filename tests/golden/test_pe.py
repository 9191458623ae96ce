"""Golden processing elements against exact rational arithmetic and numpy's float32."""

import re
from fractions import Fraction

import numpy as np
import pytest

from tilewright.golden import bfp
from tilewright.golden.arith import convert
from tilewright.golden.bits import decode, encode
from tilewright.golden.deca import decompress
from tilewright.golden.params.deca import ScaleKind, TileConfig
from tilewright.golden.params.formats import BF16, FP16, FP32, BlockFormat
from tilewright.golden.params.pe import (
    DecaLaneParams,
    FignaChunkParams,
    FignaParams,
    FpFpParams,
    FpIntParams,
    GroupSum,
    IfpuParams,
    SumForm,
)
from tilewright.golden.params.resolve import resolve
from tilewright.golden.pe import (
    align,
    align_chunks,
    aligned_dot,
    deca_lane_dot,
    fp_fp_dot,
    fp_int_dot,
)
from tilewright.verify import bench_of
from tilewright.verify.stimuli.dots import beats_of

RESULTS = 60


def workload(params, seed=1, results=RESULTS):
    stimulus = bench_of(params).stimulus(params, np.random.default_rng(seed), 4 * results)
    return beats_of(stimulus["i"])


def values(fmt, patterns):
    """Exact values; None for infinity and NaN."""
    return [Fraction(v) if np.isfinite(v) else None for v in decode(fmt, patterns).tolist()]


def rounded(value, fmt=FP32):
    """Nearest pattern of a Fraction, ties to even: where numpy rounds it to, or a neighbour."""

    def at(pattern):
        if pattern == fmt.infinity_bits:  # where rounding sees the next power of two
            return Fraction(2) ** (fmt.max_exponent + 1)
        return values(fmt, np.array([pattern]))[0]

    size = abs(value)
    kind, word = (np.float16, np.uint16) if fmt == FP16 else (np.float32, np.uint32)
    with np.errstate(over="ignore"):
        near = int(np.array(float(size)).astype(kind).view(word))
    low, high = max(near - 1, 0), min(near + 1, fmt.infinity_bits)
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (middle, high) if at(middle) <= size else (low, middle)
    below, above = size - at(low), at(high) - size
    magnitude = low if below < above or (below == above and low % 2 == 0) else high
    return magnitude | ((value < 0) << (fmt.bits - 1))


def exponent_of_top(value):
    """Exponent of the leading bit of a positive Fraction."""
    guess = value.numerator.bit_length() - value.denominator.bit_length()
    return guess if Fraction(2) ** guess <= value else guess - 1


def cut(value, lowest):
    """``value`` without what lies below 2^lowest, toward zero."""
    unit = Fraction(2) ** lowest
    return int(value / unit) * unit


def nominal(pattern):
    """Exponent of an fp16 pattern's hidden bit; subnormals have that of the smallest normal."""
    return max((pattern >> 10) & 0x1F, 1) - 15


def fused(params, accumulator, products):
    """fp32 pattern; ``products`` are (exact value, nominal exponent of its top bit) pairs."""
    present = [(v, e) for v, e in products if v]
    top = max((e for _, e in present), default=0)
    # Products hang growth bits below the window's top, where their sum ends.
    total = sum(
        (cut(v, top + params.growth + 1 - params.window_bits) for v, _ in present), Fraction()
    )
    own = values(FP32, np.array([accumulator]))[0]
    terms = [(total, top + params.growth)] if total else []
    terms += [(own, exponent_of_top(abs(own)))] if own else []
    if not terms:
        return 0
    top = max(e for _, e in terms)
    return rounded(sum(cut(v, top + 1 - params.window_bits) for v, _ in terms))


def float_products(activations, weights):
    a, w = values(FP16, activations), values(FP16, weights)
    exponents = [
        nominal(int(x)) + nominal(int(y)) + 1 for x, y in zip(activations, weights, strict=True)
    ]
    return [(x * y, e) for x, y, e in zip(a, w, exponents, strict=True)]


def integer_products(params, activations, weights):
    a = values(FP16, activations)
    exponents = [nominal(int(x)) + params.weight_bits - 1 for x in activations]
    return [(x * int(w), e) for x, w, e in zip(a, weights, exponents, strict=True)]


def finite(dots, *names):
    """Indices of dot products without infinity or NaN among their operands."""
    bad = sum(((dots[n] & 0x7C00) == 0x7C00).reshape(RESULTS, -1).any(axis=1) for n in names)
    return np.flatnonzero(bad == 0)


def tail(params, partials, scales):
    """The scaled groups of one dot product, step by step in numpy's float32."""
    total = np.float32(0)
    with np.errstate(over="ignore", invalid="ignore"):
        for partial, scale in zip(partials, scales, strict=True):
            narrow = np.float16 if params.partial == FP16 else np.float32
            word = np.uint16 if params.partial == FP16 else np.uint32
            p = np.array(partial, word).view(narrow).astype(np.float64)
            s = np.array(scale, np.uint16).view(np.float16).astype(np.float64)
            total = np.float32(total + (p * s).astype(np.float32))
        return canonical(np.float16(total).view(np.uint16))


def canonical(pattern):
    return 0x7E00 if pattern & 0x7FFF > 0x7C00 else int(pattern)


@pytest.mark.parametrize("spec", ["pe_fp_fp", "pe_fp_fp:small", "pe_fp_fp,lanes=8,guard_bits=5"])
def test_fused_products_of_floats(spec):
    params = resolve(spec)
    dots = workload(params)
    got = fp_fp_dot(params, dots["activation"], dots["weight"])
    chosen = finite(dots, "activation", "weight")
    assert len(chosen) > RESULTS // 2
    for k in chosen:
        accumulator = 0
        for a, w in zip(dots["activation"][k], dots["weight"][k], strict=True):
            accumulator = fused(params, accumulator, float_products(a, w))
        single = np.array(accumulator, np.uint32).view(np.float32)
        with np.errstate(over="ignore"):
            assert got[k] == np.float16(single).view(np.uint16), k


def test_discrete_products_of_floats_are_numpy_sums():
    params = FpFpParams(form=SumForm.DISCRETE)
    dots = workload(params, results=400)
    a, w = (dots[n].astype(np.uint16).view(np.float16) for n in ("activation", "weight"))
    total = np.zeros(400, np.float32)
    with np.errstate(all="ignore"):
        for beat in range(a.shape[1]):
            p = a[:, beat].astype(np.float32) * w[:, beat].astype(np.float32)
            total = total + ((p[:, 0] + p[:, 1]) + (p[:, 2] + p[:, 3]))
        want = total.astype(np.float16).view(np.uint16)
    want[np.isnan(total)] = 0x7E00
    assert np.array_equal(fp_fp_dot(params, dots["activation"], dots["weight"]), want)


@pytest.mark.parametrize(
    "operands", [("inf", "zero"), ("inf", "minus_inf"), ("nan", "one"), ("inf", "one")]
)
def test_infinity_and_nan(operands):
    table = {"inf": 0x7C00, "minus_inf": 0xFC00, "nan": 0x7E01, "zero": 0, "one": 0x3C00}
    first, second = (table[name] for name in operands)
    activation = np.array([[first, second, 0x3C00, 0], [0, 0, 0, 0]])
    weight = np.array([[0x3C00 if "minus" in operands[1] else second, 0x3C00, 0, 0], [0, 0, 0, 0]])
    want = 0x7C00 if operands == ("inf", "one") else 0x7E00
    for form in SumForm:
        assert fp_fp_dot(FpFpParams(form=form), activation, weight) == want


@pytest.mark.parametrize(
    "spec",
    [
        *("pe_fp_int", "pe_fp_int:small", "pe_fp_int,weight_bits=8"),
        *("pe_fp_int:float", "pe_fp_int:float,weight_bits=8"),
    ],
)
def test_floats_times_integers(spec):
    """Exact group sums are fractions, of which nothing is lost before they are rounded."""
    params = resolve(spec)
    exact = params.group_sum is GroupSum.EXACT
    dots = workload(params)
    fields = ("activation", "weight", "scale", "group_end")
    got = fp_int_dot(params, *(dots[name] for name in fields))
    chosen = finite(dots, "activation")
    assert len(chosen) > RESULTS // 2
    for k in chosen:
        partials, scales, group = [], [], 0
        for a, w, s, end in zip(*(dots[name][k] for name in fields), strict=True):
            products = integer_products(params, a, w)
            group = group + sum(v for v, _ in products) if exact else fused(params, group, products)
            if end:
                value = Fraction(group) if exact else values(FP32, np.array([group]))[0]
                narrowed = rounded(value, params.partial)
                if not exact:  # a group that is zero is +0; one that rounds to zero keeps its sign
                    narrowed |= (group >> 31) << (params.partial.bits - 1)
                partials.append(narrowed)
                scales.append(int(s))
                group = 0
        assert got[k] == tail(params, partials, scales), k


def test_exact_sums_are_nearer_than_those_of_an_fp32_accumulator():
    """A large product that another one cancels takes nothing from a small one."""
    activation = np.array([[[0x7BFF, 0xFBFF, 0x0001, 0]]])
    weight = np.array([[[7, 7, 1, 0]]])
    scale, ends = np.array([[0x3C00]]), np.ones((1, 1), int)
    exact, cut_off = (
        fp_int_dot(FpIntParams(group_sum=form), activation, weight, scale, ends)[0]
        for form in GroupSum
    )
    assert (exact, cut_off) == (1, 0)


@pytest.mark.parametrize(
    "spec",
    [
        *("pe_figna", "pe_figna:m11", "pe_figna:m8", "pe_figna:small", "pe_ifpu", "pe_ifpu:small"),
        *("pe_figna_c", "pe_figna_c:small", "pe_figna_c,lanes=1,group=4"),
    ],
)
def test_aligned_groups(spec):
    params = resolve(spec)
    dots = workload(params)
    fields = ("activation", "weight", "exponent", "scale", "group_end")
    got = aligned_dot(params, *(dots[name] for name in fields))
    guard = getattr(params, "guard_bits", 0)
    for k in range(RESULTS):
        partials, scales, group = [], [], 0
        beats = zip(*(dots[name][k] for name in fields), strict=True)
        for beat, (a, w, e, s, end) in enumerate(beats):
            if spec.startswith("pe_ifpu"):  # of two's complement, this beat's bit
                place = params.weight_bits - 1 - beat % params.weight_bits
                w = w * (-1 if place == params.weight_bits - 1 else 1) * 2**place
            distance, shared = divmod(int(e), 32)  # only FIGNA-C has distances
            chunk = 0
            for word, weight in zip(a.tolist(), w.tolist(), strict=True):
                sign = -1 if word >> params.mantissa_bits else 1
                chunk += sign * (word % (1 << params.mantissa_bits)) * weight
            group += (chunk * 2**guard) // 2**distance  # downward
            if end:
                unit = Fraction(2) ** (shared - 15 - (params.mantissa_bits - 1) - guard)
                partials.append(rounded(group * unit, params.partial))
                scales.append(int(s))
                group = 0
        assert got[k] == tail(params, partials, scales), k


@pytest.mark.parametrize("mantissa_bits", range(1, 17))
def test_alignment_is_that_of_block_floating_point(mantissa_bits):
    rng = np.random.default_rng(mantissa_bits)
    patterns = rng.integers(0, 1 << 16, (200, 8))
    words, exponent = align(mantissa_bits, patterns)
    blocks = bfp.encode(BlockFormat(group=8, mantissa_bits=mantissa_bits), patterns, saturate=True)
    assert np.array_equal(words & ((1 << mantissa_bits) - 1), blocks.mantissa[:, 0])
    assert np.array_equal(words >> mantissa_bits, blocks.sign[:, 0])
    assert np.array_equal(exponent, blocks.exponent[:, 0])


def test_chunks_are_aligned_to_their_own_largest_exponent():
    """Bits are lost to larger neighbours in the chunk, not in the group."""
    params = FignaChunkParams(lanes=2, group=8)
    one, tiny = 0x3C00, 0x0C01  # 1 and 2^-12 (1 + 2^-10)
    words, exponents = align_chunks(params, np.array([one, tiny, tiny, 0, 0, 0, one, one]))
    assert (exponents & 31).tolist() == [15] * 4
    assert (exponents >> 5).tolist() == [0, 12, 14, 0]
    assert words.tolist() == [[1024, 0], [1025, 0], [0, 0], [1024, 1024]]


@pytest.mark.parametrize("spec", ["pe_deca", "pe_deca:small", "pe_deca,lanes=1"])
def test_deca_lanes_are_numpy_sums(spec):
    """Dots whose sums stay normal: there numpy's float32 rounds as AMX does."""
    params = resolve(spec)
    rng = np.random.default_rng(6)
    shape = (200, 4, params.lanes)
    activation = encode(BF16, rng.standard_normal(shape))
    scale = encode(BF16, rng.uniform(0.01, 0.1, shape[:2]))
    fmt = params.weight_format
    weight = rng.integers(fmt.minimum, fmt.maximum, shape, endpoint=True)
    scaled = encode(BF16, weight * decode(BF16, scale)[..., np.newaxis])
    terms = (decode(BF16, activation) * decode(BF16, scaled)).astype(np.float32)
    total = np.zeros(200, np.float32)
    for beat in range(4):
        level = terms[:, beat]
        while level.shape[-1] > 1:
            level = level[:, 0::2] + level[:, 1::2]
        total = total + level[:, 0]
    got = deca_lane_dot(params, activation, weight, scale)
    assert np.array_equal(got, total.astype(np.float16).view(np.uint16))


def test_deca_lanes_weigh_as_deca_decompresses():
    """Codes through DECA's own golden model give the weights that the lanes multiply with."""
    params = DecaLaneParams()
    config = TileConfig(code_bits=4, scale=ScaleKind.BF16, group=32)
    rng = np.random.default_rng(9)
    codes = rng.integers(0, 16, (1, 512))
    scale = encode(BF16, rng.uniform(0.5, 2, (1, 16)))
    integers = (codes ^ 8) - 8
    lut = np.zeros(256, np.uint16)
    lut[:16] = encode(BF16, (np.arange(16) ^ 8) - 8.0)
    ones = np.ones((1, 512), bool)
    tile = decompress(config, lut, ones, codes, scale).reshape(-1)
    one = np.zeros((512, 1, 4), np.int64)
    one[:, 0, 0] = 0x3F80  # the activation 1.0 beside the weight, 0 elsewhere
    weight = np.zeros((512, 1, 4), np.int64)
    weight[:, 0, 0] = integers[0]
    got = deca_lane_dot(params, one, weight, np.repeat(scale[0], 32)[:, np.newaxis])
    assert np.array_equal(got, convert(BF16, FP16, tile))


def test_forty_bits_lose_nothing():
    patterns = np.random.default_rng(2).integers(0, 0x7C00, (100, 16))
    words, exponent = align(40, patterns)
    exact = words * np.exp2((exponent - 15 - 39)[:, np.newaxis].astype(float))
    assert np.array_equal(exact, decode(FP16, patterns))


BITS = (np.zeros((1, 4, 16), int), np.zeros((1, 4, 16), int))
ONE_BEAT = (np.zeros((1, 1, 4), int), np.zeros((1, 1, 4), int))


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: FpFpParams(lanes=3), "lanes must be 1, 2, 4, 8 or 16, not 3"),
        (lambda: FpFpParams(group=6), "group must be a multiple of lanes up to 1024, not 6"),
        (lambda: resolve("pe_figna,partial=bf16"), "partial must be fp16 or fp32, not bf16"),
        (lambda: IfpuParams(group=8), "group must be a multiple of lanes * weight_bits, not 8"),
        (
            lambda: aligned_dot(IfpuParams(), *BITS, [[1] * 4], [[0] * 4], [[0, 1, 0, 1]]),
            "a group must end on the beat of the lowest weight bits",
        ),
        (
            lambda: aligned_dot(
                IfpuParams(), BITS[0], BITS[1] + 2, [[1] * 4], [[0] * 4], [[0, 0, 0, 1]]
            ),
            "weights are given as bits, not 2..2",
        ),
        (
            lambda: aligned_dot(FignaChunkParams(), *ONE_BEAT, [[1024]], [[0]], [[1]]),
            "an exponent is not a word of 10 bits",
        ),
        (
            lambda: resolve("figna_aligner,group=4"),
            "group must be a multiple of 2 lanes up to 1024, not 4",
        ),
        (
            lambda: fp_fp_dot(FpFpParams(), np.zeros((2, 8), int), np.zeros((2, 8), int)),
            "beats of 4 elements expected, not shape (2, 8)",
        ),
        (
            lambda: aligned_dot(FignaParams(), *ONE_BEAT, [[31]], [[0]], [[1]]),
            "shared exponents are 1..30, not 31..31",
        ),
        (
            lambda: aligned_dot(FignaParams(), *ONE_BEAT, [[1]], [[0]], [[0]]),
            "the last beat of a dot product must end its group",
        ),
        (
            lambda: aligned_dot(
                FignaParams(), ONE_BEAT[0] + (1 << 15), ONE_BEAT[1], [[1]], [[0]], [[1]]
            ),
            "an activation is not a word of 15 bits",
        ),
        (
            lambda: aligned_dot(FignaParams(), ONE_BEAT[0], ONE_BEAT[1] + 8, [[1]], [[0]], [[1]]),
            "weights leave int4: 8..8",
        ),
        (
            lambda: aligned_dot(
                FignaParams(group=4), *(np.zeros((1, 2, 4), int),) * 2, [[1, 1]], [[0, 0]], [[0, 1]]
            ),
            "a group has 8 elements, at most 4 fit",
        ),
    ],
)
def test_refusals(call, message):
    with pytest.raises(ValueError, match=f"^{re.escape(message)}$"):
        call()
