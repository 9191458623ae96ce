"""Bench of the multiplier: corner pairs, ties, products at both ends of the range."""

import numpy as np
from numpy.random import Generator

from tilewright.golden.arith import multiply
from tilewright.golden.bits import decode, encode
from tilewright.golden.pack import Columns
from tilewright.golden.params.arith import FloatMulParams
from tilewright.golden.vectors import corners, operands
from tilewright.verify.floats import edge_values, shortened


def stimulus(params: FloatMulParams, rng: Generator, cases: int) -> dict[str, Columns]:
    count = cases * params.lanes
    plain, short, edge = (len(part) for part in np.array_split(np.arange(count), 3))
    a, b = operands([params.a, params.b], rng, plain)
    a_short, b_short = (
        shortened(fmt, x, rng)
        for fmt, x in zip(
            (params.a, params.b), operands([params.a, params.b], rng, short), strict=True
        )
    )
    a_edge = rng.integers(1, params.a.max_finite_bits, edge)
    b_edge = encode(params.b, edge_values(params.out, rng, edge) / decode(params.a, a_edge))
    shape = (cases, params.lanes)
    return {
        "i": {
            "a": np.concatenate([a, a_short, a_edge]).reshape(shape),
            "b": np.concatenate([b, b_short, b_edge]).reshape(shape),
        }
    }


def exhaustive(params: FloatMulParams) -> dict[str, Columns]:
    """Every pattern of ``a`` times every corner of ``b``, spread over the lanes.

    With lanes that divide the patterns, lane k sees the patterns k, k + lanes, ... of each round.
    """
    edge = corners(params.b)
    patterns = np.arange(1 << params.a.bits)
    shape = (-1, params.lanes)
    return {
        "i": {
            "a": np.tile(patterns, len(edge)).reshape(shape),
            "b": np.repeat(edge, len(patterns)).reshape(shape),
        }
    }


def expected(params: FloatMulParams, columns: dict[str, Columns]) -> dict[str, Columns]:
    x = columns["i"]
    y = multiply(params.a, params.b, params.out, x["a"], x["b"], params.rules)
    return {"o": {"y": y}}
