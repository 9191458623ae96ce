"""Bench of the adder: corner pairs, close exponents, cancellation, ties."""

import numpy as np
from numpy.random import Generator

from tilewright.golden.arith import add
from tilewright.golden.pack import Columns
from tilewright.golden.params.arith import FloatAddParams
from tilewright.golden.vectors import operands
from tilewright.verify.floats import shortened


def stimulus(params: FloatAddParams, rng: Generator, cases: int) -> dict[str, Columns]:
    count = cases * params.lanes
    fmts = (params.a, params.b)
    plain = operands(fmts, rng, count - count // 3)
    short = [
        shortened(f, x, rng) for f, x in zip(fmts, operands(fmts, rng, count // 3), strict=True)
    ]
    a, b = (
        np.concatenate(pair).reshape(cases, params.lanes) for pair in zip(plain, short, strict=True)
    )
    return {"i": {"a": a, "b": b}}


def expected(params: FloatAddParams, columns: dict[str, Columns]) -> dict[str, Columns]:
    x = columns["i"]
    return {"o": {"y": add(params.a, params.b, params.out, x["a"], x["b"], params.rules)}}
