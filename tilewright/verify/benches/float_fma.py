"""Bench of the fused multiply-add: corner triples, sums that align and cancel, ties."""

import numpy as np
from numpy.random import Generator

from tilewright.golden.arith import fma
from tilewright.golden.pack import Columns
from tilewright.golden.params.arith import FloatFmaParams
from tilewright.golden.vectors import operands
from tilewright.verify.floats import shortened


def stimulus(params: FloatFmaParams, rng: Generator, cases: int) -> dict[str, Columns]:
    count = cases * params.lanes
    fmts = (params.a, params.b, params.c)
    plain = operands(fmts, rng, count - count // 3)
    short = [
        shortened(f, x, rng) for f, x in zip(fmts, operands(fmts, rng, count // 3), strict=True)
    ]
    a, b, c = (
        np.concatenate(pair).reshape(cases, params.lanes) for pair in zip(plain, short, strict=True)
    )
    return {"i": {"a": a, "b": b, "c": c}}


def expected(params: FloatFmaParams, columns: dict[str, Columns]) -> dict[str, Columns]:
    x, p = columns["i"], params
    return {"o": {"y": fma(p.a, p.b, p.c, p.out, x["a"], x["b"], x["c"], p.rules)}}
