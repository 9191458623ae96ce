"""Bench of the Harmonia element: every mode, switching from result to result, extremes, ties."""

import numpy as np
from numpy.random import Generator
from numpy.typing import NDArray

from tilewright.golden.bits import encode
from tilewright.golden.harmonia.element import results
from tilewright.golden.pack import Columns
from tilewright.golden.params.formats import FP16
from tilewright.golden.params.harmonia import BENCH_STEPS, HarmoniaPeParams, Mode
from tilewright.golden.vectors import corners


def stimulus(params: HarmoniaPeParams, rng: Generator, cases: int) -> dict[str, Columns]:
    """``cases`` beats; what does not fill a dot product has no result."""
    beats = BENCH_STEPS * params.fold  # of one dot product
    count = -(-cases // beats)
    shape = (count, BENCH_STEPS, params.fold, params.pairs)
    kind = rng.integers(0, 4, (count, 1, 1, 1))  # random, extreme, sparse, cancelling
    mode = _modes(rng, count)
    a_signs, b_signs = (rng.integers(0, 2, shape) for _ in range(2))
    a = rng.integers(0, 256, shape)
    b = rng.integers(0, 16, shape)
    b = np.where((mode == Mode.M8W4.code)[:, np.newaxis, np.newaxis, np.newaxis], b % 9, b)
    same_sign = rng.integers(0, 2, (count, 1, 1, 1))
    a = np.where(kind == 1, 255, np.where(kind == 2, a * (rng.random(shape) < 0.2), a))
    b = np.where(kind == 1, b.max(axis=(1, 2, 3), keepdims=True), b)
    a_signs = np.where(kind == 1, same_sign, a_signs)
    b_signs = np.where(kind == 1, 0, b_signs)
    exponents = _exponents(rng, count, params.sub_elements)
    columns = {
        "mode": np.broadcast_to(mode[:, np.newaxis, np.newaxis], shape[:3]),
        "first": _at_step(shape, 0),
        "last": _at_step(shape, BENCH_STEPS - 1),
        "a_signs": a_signs,
        "a": a,
        "b_signs": b_signs,
        "b": b,
        "a_exponents": _of_every_beat(exponents[0], params),
        "b_exponents": _of_every_beat(exponents[1], params),
        "scale": _scales(rng, shape[:3]),
    }
    return {"i": {n: x.reshape(-1, *x.shape[3:])[:cases] for n, x in columns.items()}}


def expected(params: HarmoniaPeParams, columns: dict[str, Columns]) -> dict[str, Columns]:
    return {"o": {"y": results(params, columns["i"])}}


def _modes(rng: Generator, count: int) -> NDArray:
    """Runs of one mode and changes at every result."""
    drawn = rng.integers(0, len(Mode), count)
    hold = rng.random(count) < 0.4
    return np.where(hold, drawn[0], drawn)


def _at_step(shape: tuple[int, ...], step: int) -> NDArray:
    return np.broadcast_to(np.arange(shape[1])[:, np.newaxis] == step, shape[:3]).astype(np.int64)


def _exponents(rng: Generator, count: int, sub_elements: int) -> NDArray:
    """Of both operands, (2, count, steps, sub_elements): close to each other, or anywhere."""
    shape = (2, count, BENCH_STEPS, sub_elements)
    centre = rng.integers(4, 28, (2, count, 1, 1))
    close = np.clip(centre + rng.integers(-2, 3, shape), 1, 30)
    return np.where(rng.random((1, count, 1, 1)) < 0.3, rng.integers(1, 31, shape), close)


def _of_every_beat(x: NDArray, params: HarmoniaPeParams) -> NDArray:
    return np.repeat(x[:, :, np.newaxis], params.fold, axis=2)


def _scales(rng: Generator, shape: tuple[int, ...]) -> NDArray:
    """Mostly ordinary scales, some at fp16's edges."""
    ordinary = encode(FP16, np.exp2(rng.uniform(-12, 4, shape)) * rng.choice([-1, 1], shape))
    return np.where(rng.random(shape) < 0.1, rng.choice(corners(FP16), shape), ordinary)
