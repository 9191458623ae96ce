"""Bench of the vector unit that the accelerators share."""

import numpy as np
from numpy.random import Generator
from numpy.typing import NDArray

from tilewright.golden.machine.vector import beats
from tilewright.golden.params.formats import FP16
from tilewright.golden.params.vector import TABLES, VectorParams
from tilewright.golden.payload import Columns
from tilewright.golden.vectors import operands
from tilewright.verify.bench import Bench, WordBench

LONGEST_RUN = 6  # beats of one operation


def _operations(params: VectorParams, rng: Generator, cases: int) -> Columns:
    """Every operation on corners and moderate values, in short runs."""
    first = rng.random(cases) < 1 / 3
    first[0] = True
    first[LONGEST_RUN::LONGEST_RUN] = True
    run = np.cumsum(first) - 1
    runs = run[-1] + 1
    codes = np.array([int(operation) for operation in params.operations])
    operation = codes[rng.permutation(runs) % len(codes)][run]
    scale = operands((FP16,), rng, runs)[0]
    scale[rng.random(runs) < 0.5] = 0x3C00
    return {
        "operation": operation,
        "first": first.astype(np.uint8),
        "active": (rng.random((cases, params.row_lanes)) < 0.9).astype(np.uint8),
        "scale": scale[run],
        "a": _values(params, rng, cases),
        "b": _values(params, rng, cases),
    }


def _approximations(params: VectorParams) -> Columns:
    """List every fp16 pattern through every approximation."""
    patterns = np.arange(1 << FP16.bits, dtype=np.uint16).reshape(-1, params.lanes)
    functions = [*TABLES, *(o for o in params.operations if o.keeps_sum)]
    cases = len(functions) * len(patterns)
    a = np.tile(patterns, (len(functions), 1))
    return {
        "operation": np.repeat([int(operation) for operation in functions], len(patterns)),
        "first": np.ones(cases, np.uint8),
        "active": np.ones((cases, params.row_lanes), np.uint8),
        "scale": np.zeros(cases, np.uint16),
        "a": a,
        "b": np.zeros_like(a),
    }


def _values(params: VectorParams, rng: Generator, cases: int) -> NDArray:
    """Half of the beats from everything there is, half of them of moderate size."""
    shape = (cases, params.lanes)
    wild = operands((FP16,), rng, cases * params.lanes)[0].reshape(shape)
    moderate = rng.standard_t(4, shape).astype(np.float16).view(np.uint16)
    return np.where(rng.random((cases, 1)) < 0.5, wild, moderate)


BENCHES: dict[str, Bench] = {
    "anda_vector": WordBench(lambda p, x: beats(p, **x), _operations, exhaustive=_approximations)
}
