"""Golden streams against the plainest code there is: Python lists, big integers, numpy floats."""

from math import ldexp

import numpy as np
import pytest

from tilewright.golden.params.harmonia import Mode
from tilewright.golden.params.resolve import BLOCKS, resolve
from tilewright.verify import stream_bench_of

CANONICAL_NAN = 0x7E00
CASES = 40


def drawn(params, seed=11):
    """Operands and golden results of a block, in columns per port."""
    bench = stream_bench_of(params)
    columns = bench.stimulus(params, np.random.default_rng(seed), CASES)
    return columns, bench.expected(params, columns)


def pattern(value):
    """fp16 pattern of a number, NaN in its canonical form."""
    half = np.float16(value)
    return CANONICAL_NAN if np.isnan(half) else int(half.view(np.uint16))


def half(word):
    return np.uint16(word).view(np.float16)


@pytest.mark.parametrize("preset", BLOCKS["harmonia_offset"].PRESETS)
def test_offsets_in_numpy_halves(preset):
    params = resolve(f"harmonia_offset:{preset}")
    columns, results = drawn(params)
    x, want = columns["i"], []
    offset, window, learning = {}, {}, False
    with np.errstate(all="ignore"):
        for beat in range(len(x["learn"])):
            channel, words = int(x["channel"][beat]), [int(w) for w in x["values"][beat]]
            if x["learn"][beat]:
                window = window if learning else {}
                window.setdefault(channel, []).extend(words[: params.rows])  # of one channel
                offset = learnt(window, params.offsets)
            else:
                want.append([])
                for k, word in enumerate(words):  # all rows of a channel, then of the next
                    shift = offset.get(channel + k // params.rows, 0)
                    moved = pattern(half(word) - half(shift)) if shift & 0x7FFF else word
                    want[-1].append(moved)
            learning = bool(x["learn"][beat])
    assert results["o"]["values"].tolist() == want


def learnt(window, count):
    """Half of the extreme value of the ``count`` channels where it is largest."""
    extremes = {c: max(words, key=lambda w: w & 0x7FFF) for c, words in window.items()}
    largest = sorted(sorted(extremes), key=lambda c: -(extremes[c] & 0x7FFF))[:count]
    return {
        c: pattern(half(extremes[c]) / np.float16(2))
        if np.isfinite(half(extremes[c]))
        else extremes[c] - 0x400
        for c in largest
    }


def accumulated(sums, partial):
    """fp32 results of sums (mode, integer, exponents of a and b, scale, whether it is the last)."""
    total, high, results = np.float32(0), None, []
    for mode, integer, a, b, scale, last in sums:
        if mode is Mode.M8M8 and high is None:
            high = integer
        else:
            integer, high = (integer if high is None else 16 * high + integer), None
            fraction = {Mode.M8W4: 0, Mode.M8M4: b - 15 - 3, Mode.M8M8: b - 15 - 7}[mode]
            term = np.float32(partial(ldexp(integer, a - 15 - 7 + fraction)))
            total += term * np.float32(half(scale)) if mode is Mode.M8W4 else term
        if last:
            results.append(total)
            total = np.float32(0)
    return results


def signed_sum(a_signs, a, b_signs, b):
    """Exact sum of products of signs and magnitudes."""
    pairs = zip(a_signs.tolist(), a.tolist(), b_signs.tolist(), b.tolist(), strict=True)
    return sum((-1) ** (s ^ t) * x * y for s, x, t, y in pairs)


@pytest.mark.parametrize("preset", ["small"])
def test_harmonia_array_in_numpy_floats(preset):
    params = resolve(f"harmonia_array:{preset}")
    columns, results = drawn(params)
    loads, x = columns["load"], columns["i"]
    memory = {
        (int(loads["column"][k]), int(loads["address"][k])): k for k in range(len(loads["column"]))
    }
    want = {}
    with np.errstate(all="ignore"):
        for column in range(params.columns):
            for row in range(params.rows):
                lanes = slice(row * params.group, (row + 1) * params.group)
                sums = []
                for k in range(len(x["mode"])):
                    word = memory[column, int(x["address"][k])]
                    operands = (x["a_signs"][k, lanes], x["a"][k, lanes])
                    stored = (loads["b_signs"][word], loads["b"][word])
                    exponents = int(x["a_exponents"][k, row]), int(loads["b_exponent"][word])
                    mode = list(Mode)[int(x["mode"][k])]
                    total = signed_sum(*operands, *stored)
                    sums.append((mode, total, *exponents, loads["scale"][word], x["last"][k]))
                want[column, row] = [pattern(y) for y in accumulated(sums, np.float16)]
    tiles = int(x["last"].sum())
    got = results["o"]["values"].reshape(tiles, params.columns, params.rows)
    for (column, row), values in want.items():
        assert got[:, column, row].tolist() == values


@pytest.mark.parametrize("preset", BLOCKS["harmonia_pe"].PRESETS)
def test_harmonia_pe_in_numpy_floats(preset):
    params = resolve(f"harmonia_pe:{preset}")
    partial = {"fp16": np.float16, "fp32": np.float32}[params.partial.name]
    columns, results = drawn(params)
    x, sums = columns["i"], []
    with np.errstate(all="ignore"):
        for end in range(params.fold - 1, len(x["mode"]), params.fold):
            beats = slice(end - params.fold + 1, end + 1)
            for k in range(params.sub_elements):
                lanes = slice(k * params.lanes, (k + 1) * params.lanes)
                parts = (x[n][beats, lanes].ravel() for n in ("a_signs", "a", "b_signs", "b"))
                exponents = int(x["a_exponents"][end, k]), int(x["b_exponents"][end, k])
                last = bool(x["last"][end]) and k == params.sub_elements - 1
                mode = list(Mode)[int(x["mode"][end])]
                sums.append((mode, signed_sum(*parts), *exponents, x["scale"][end], last))
        values = accumulated(sums, partial)
        if params.result.name == "fp32":
            want = [int(v.view(np.uint32)) for v in values]
        else:
            want = [pattern(v) for v in values]
    assert results["o"]["y"].tolist() == want
