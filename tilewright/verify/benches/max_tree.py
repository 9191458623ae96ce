"""Bench of the max tree: ties, one large value at every place, random values."""

import numpy as np
from numpy.random import Generator

from tilewright.golden.integer import max_tree
from tilewright.golden.pack import Columns
from tilewright.golden.params.arith import MaxTreeParams
from tilewright.verify.stimuli import random_columns


def stimulus(params: MaxTreeParams, rng: Generator, cases: int) -> dict[str, Columns]:
    """Two of three cases are small values, and in one of these a larger one goes round."""
    (port,) = params.inputs
    columns = random_columns(port, rng, cases)
    terms, case = columns["terms"], np.arange(cases)
    small = case % 3 > 0
    shift = rng.integers(0, params.width, size=(cases, 1)).astype(np.uint64)
    terms[small] >>= shift[small]
    lone = np.flatnonzero(case % 3 == 1)
    place = np.arange(lone.size) % params.terms
    terms[lone, place] = np.minimum(terms[lone].max(axis=1) + 1, (1 << params.width) - 1)
    return {"i": columns}


def expected(params: MaxTreeParams, columns: dict[str, Columns]) -> dict[str, Columns]:
    return {"o": {"max": max_tree(columns["i"]["terms"])}}
