"""Bench of the leading-zero count: every position of the highest bit, and zero."""

import numpy as np
from numpy.random import Generator

from tilewright.golden.integer import leading_zeros
from tilewright.golden.pack import Columns
from tilewright.golden.params.arith import LeadingZerosParams
from tilewright.verify.stimuli import random_columns


def stimulus(params: LeadingZerosParams, rng: Generator, cases: int) -> dict[str, Columns]:
    """Random bits below a highest bit that goes through all positions."""
    (port,) = params.inputs
    columns = random_columns(port, rng, cases)
    shift = np.arange(cases) % (params.width + 1)
    x = columns["x"]
    columns["x"] = (x.astype(object) >> shift).astype(x.dtype)
    return {"i": columns}


def expected(params: LeadingZerosParams, columns: dict[str, Columns]) -> dict[str, Columns]:
    return {"o": {"count": leading_zeros(columns["i"]["x"], params.width)}}
