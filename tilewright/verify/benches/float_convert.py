"""Bench of the format conversion: corners, uniform patterns, midpoints, both ends of the range."""

import numpy as np
from numpy.random import Generator

from tilewright.golden.arith import convert
from tilewright.golden.bits import encode
from tilewright.golden.pack import Columns
from tilewright.golden.params.arith import FloatConvertParams
from tilewright.golden.vectors import operands
from tilewright.verify.floats import around_midpoints, edge_values


def stimulus(params: FloatConvertParams, rng: Generator, cases: int) -> dict[str, Columns]:
    count = cases * params.lanes
    plain, middle, edge = (len(part) for part in np.array_split(np.arange(count), 3))
    a = np.concatenate(
        [
            *operands([params.a], rng, plain),
            around_midpoints(params.a, params.out, rng, middle),
            encode(params.a, edge_values(params.out, rng, edge)),
        ]
    )
    return {"i": {"a": a.reshape(cases, params.lanes)}}


def expected(params: FloatConvertParams, columns: dict[str, Columns]) -> dict[str, Columns]:
    return {"o": {"y": convert(params.a, params.out, columns["i"]["a"], params.rules)}}
