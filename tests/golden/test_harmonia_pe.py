"""The element's golden model on streams of beats against the products of whole matrices."""

import numpy as np
import pytest

from tilewright.golden import bfp
from tilewright.golden.arith import convert
from tilewright.golden.harmonia.gemm import gemm, linear, truncated
from tilewright.golden.harmonia.pe import results, split_operand
from tilewright.golden.params.formats import FP16, FP32
from tilewright.golden.params.harmonia import ACTIVATION_BITS, HarmoniaPeParams, Mode
from tilewright.golden.weights import quantise

CONFIGURATIONS = {
    "paper": HarmoniaPeParams(),
    "single": HarmoniaPeParams.preset("single"),
    "pair": HarmoniaPeParams(sub_elements=2, fold=2),
    "unfolded": HarmoniaPeParams(fold=1),
    "wide": HarmoniaPeParams.preset("wide"),
    "small": HarmoniaPeParams.preset("small"),
}


def beats(params, mode, a, b_signs, b, b_exponents, scales):
    """One dot product's sums (sums, group) in the order of the element's beats."""
    sums = len(b)
    steps = sums // params.sub_elements
    grid = (steps, params.sub_elements, params.fold, params.lanes)

    def by_beat(x):
        return x.reshape(grid).swapaxes(1, 2).reshape(steps * params.fold, params.pairs)

    def by_step(x):
        return np.repeat(x.reshape(steps, params.sub_elements), params.fold, axis=0)

    step = np.repeat(np.arange(steps), params.fold)
    return {
        "mode": np.full(steps * params.fold, mode.code),
        "first": (step == 0).astype(int),
        "last": (step == steps - 1).astype(int),
        "a_signs": by_beat(a["sign"]),
        "a": by_beat(a["mantissa"]),
        "b_signs": by_beat(b_signs),
        "b": by_beat(b),
        "a_exponents": by_step(a["exponent"]),
        "b_exponents": by_step(b_exponents),
        "scale": by_step(scales)[:, 0],
    }


def operand(blocks, row, passes):
    """The first operand, each group as often as the second has passes."""
    fields = {"sign": blocks.sign, "mantissa": blocks.mantissa, "exponent": blocks.exponent}
    return {name: np.repeat(x[row], passes, axis=0) for name, x in fields.items()}


def halves(rng, shape, spread=3):
    """fp16 patterns over many exponents, with zeros and subnormals."""
    values = rng.standard_t(2, shape) * np.exp2(rng.normal(0, spread, shape))
    values[rng.random(shape) < 0.05] = 0
    return np.clip(values, -65504, 65504).astype(np.float16).view(np.uint16)


@pytest.mark.parametrize("params", CONFIGURATIONS.values(), ids=CONFIGURATIONS)
@pytest.mark.parametrize("mode", Mode)
@pytest.mark.parametrize("spread", [1, 3, 7, 11])
def test_equals_the_product_of_matrices(params, mode, spread):
    """Where one sum is a step, the last group is not full."""
    numerics = params.numerics
    rng = np.random.default_rng([mode.code, spread])
    groups = 8
    inner = groups * params.group - (params.group // 3 if params.sub_elements == 1 else 0)
    a = bfp.encode(numerics.activation, halves(rng, (3, inner), spread))
    if mode is Mode.M8W4:
        weights = quantise(rng.normal(size=(2, inner)) * 10.0 ** (spread / 2 - 3))
        expected = linear(numerics, a, weights)
        values, scales = weights.grouped(params.group)
        signs, magnitudes = values < 0, np.abs(values)
        exponents = np.zeros((2, groups), int)
    else:
        high = bfp.encode(numerics.activation, halves(rng, (2, inner), spread))
        b = truncated(high, ACTIVATION_BITS, np.uint8(mode.operand_bits))
        expected = gemm(numerics, a, b)
        signs, magnitudes, exponents = b.sign, b.mantissa, b.exponent
        scales = rng.integers(0, 1 << 16, exponents.shape)
    if mode is Mode.M8M8:
        magnitudes = split_operand(magnitudes).reshape(2, -1, params.group)
        signs, exponents, scales = (np.repeat(x, 2, axis=1) for x in (signs, exponents, scales))
    streams = [
        beats(
            params,
            mode,
            operand(a, row, mode.passes),
            signs[column],
            magnitudes[column],
            exponents[column],
            scales[column],
        )
        for row in range(3)
        for column in range(2)
    ]
    joined = {name: np.concatenate([s[name] for s in streams]) for name in streams[0]}
    got = results(params, joined)
    if params.result == FP32:
        got = convert(FP32, FP16, got)
    np.testing.assert_array_equal(got, expected.reshape(-1))


def test_modes_follow_each_other():
    """Results do not depend on what was computed before."""
    params = HarmoniaPeParams.preset("small")
    rng = np.random.default_rng(3)
    streams = []
    for mode in [*Mode, *reversed(Mode)]:
        shape = (4, params.group)
        a = {
            "sign": rng.integers(0, 2, shape),
            "mantissa": rng.integers(0, 256, shape),
            "exponent": rng.integers(10, 20, 4),
        }
        sums = rng.integers(0, 2, shape), rng.integers(0, 8, shape), rng.integers(10, 20, 4)
        streams.append(beats(params, mode, a, *sums, np.full(4, 0x3C00)))
    joined = {name: np.concatenate([s[name] for s in streams]) for name in streams[0]}
    alone = np.concatenate([results(params, s) for s in streams])
    np.testing.assert_array_equal(results(params, joined), alone)


def test_beats_without_an_end_have_no_result():
    params = HarmoniaPeParams.preset("small")
    empty = {
        f.name: np.zeros((3, *([f.count] if f.count else []))) for f in params.inputs[0].fields
    }
    assert results(params, {n: x.astype(int) for n, x in empty.items()}).size == 0


def test_rates():
    paper = HarmoniaPeParams()
    assert [paper.macs_per_cycle(mode) for mode in Mode] == [32, 32, 16]
    assert paper.pairs == 32
    assert HarmoniaPeParams.preset("wide").partial == FP32


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"sub_elements": 3}, "sub_elements must be 1, 2 or 4, not 3"),
        ({"fold": 8}, "fold must divide the group 32 and be at most sub_elements 4"),
        ({"group": 30}, "fold must divide the group 30"),
        ({"group": 1}, "group must be 2..64, not 1"),
    ],
)
def test_refused_parameters(change, message):
    with pytest.raises(ValueError, match=f"^{message}"):
        HarmoniaPeParams(**change)


@pytest.mark.parametrize("lengths", [(4, 8), (8, 4, 8), (4, 4, 4, 8, 8, 4)])
def test_modes_may_change_within_a_result(lengths):
    """A channel of V: old groups have 4 bits, one sum each, recent ones 8 bits and two sums."""
    params, rng = HarmoniaPeParams.preset("single"), np.random.default_rng(len(lengths))
    group, fmt = params.group, params.numerics.activation
    a = bfp.encode(fmt, halves(rng, (1, len(lengths) * group)))
    b = truncated(
        bfp.encode(fmt, halves(rng, (1, len(lengths) * group))), 8, np.array([lengths], np.uint8)
    )
    pieces = []
    for k, bits in enumerate(lengths):
        mode = Mode.M8M8 if bits == 8 else Mode.M8M4
        parts = split_operand(b.mantissa[0, k]) if bits == 8 else b.mantissa[:1, k]
        one = bfp.Blocks(
            a.sign[:, k : k + 1], a.mantissa[:, k : k + 1], a.exponent[:, k : k + 1], 0
        )
        count = len(parts)
        pieces.append(
            beats(
                params,
                mode,
                operand(one, 0, count),
                np.repeat(b.sign[:1, k], count, axis=0),
                parts,
                np.full(count, b.exponent[0, k]),
                np.zeros(count, int),
            )
        )
    stream = {name: np.concatenate([piece[name] for piece in pieces]) for name in pieces[0]}
    steps = len(stream["mode"])
    stream["first"] = (np.arange(steps) == 0).astype(int)
    stream["last"] = (np.arange(steps) == steps - 1).astype(int)
    assert results(params, stream).tolist() == gemm(params.numerics, a, b)[0].tolist()
