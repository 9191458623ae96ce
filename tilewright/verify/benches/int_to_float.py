"""Bench of the integer conversion: extremes, every magnitude, ties and their neighbours."""

import numpy as np
from numpy.random import Generator

from tilewright.golden.arith import int_to_float
from tilewright.golden.pack import Columns
from tilewright.golden.params.arith import IntToFloatParams


def stimulus(params: IntToFloatParams, rng: Generator, cases: int) -> dict[str, Columns]:
    count = cases * params.lanes
    low, high = -(1 << (params.bits - 1)), (1 << (params.bits - 1)) - 1
    a = rng.integers(low, high, count, endpoint=True) >> rng.integers(0, params.bits, count)
    # One significand bit more than the result has, then zeros: half of these are ties.
    length = min(params.out.significand_bits + 1, params.bits - 1)
    longer = rng.integers(1 << (length - 1), 1 << length, count)
    longer <<= rng.integers(0, params.bits - 1 - length, count, endpoint=True)
    beside = np.clip(longer + rng.integers(-1, 1, count, endpoint=True), 0, high)
    a = np.where(rng.random(count) < 0.5, beside * rng.choice([-1, 1], count), a)
    extremes = np.array([0, 1, -1, low, high, low + 1, high - 1])[:count]
    a[: len(extremes)] = extremes
    return {"i": {"a": a.reshape(cases, params.lanes)}}


def expected(params: IntToFloatParams, columns: dict[str, Columns]) -> dict[str, Columns]:
    return {"o": {"y": int_to_float(params.out, columns["i"]["a"], params.rules)}}
