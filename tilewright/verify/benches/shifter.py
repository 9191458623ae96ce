"""Bench of the shifter: every amount, words with few and with many set bits."""

import numpy as np
from numpy.random import Generator

from tilewright.golden.integer import shift
from tilewright.golden.pack import Columns
from tilewright.golden.params.arith import ShifterParams
from tilewright.verify.stimuli import random_columns


def stimulus(params: ShifterParams, rng: Generator, cases: int) -> dict[str, Columns]:
    """Every other word has one set bit, at the edge of what is shifted out or anywhere."""
    (port,) = params.inputs
    columns = random_columns(port, rng, cases)
    columns["amount"] = np.arange(cases) % (1 << params.amount_bits)
    place = rng.integers(0, params.width, size=cases)
    edge = np.clip(columns["amount"] - rng.integers(0, 2, size=cases), 0, params.width - 1)
    place = np.where(rng.integers(0, 2, size=cases) == 1, place, edge)
    one = (np.ones(cases, dtype=object) << place).astype(columns["x"].dtype)
    columns["x"] = np.where(rng.integers(0, 2, size=cases) == 1, columns["x"], one)
    return {"i": columns}


def expected(params: ShifterParams, columns: dict[str, Columns]) -> dict[str, Columns]:
    fields = columns["i"]
    y, sticky = shift(fields["x"], fields["amount"], params.width, params.direction)
    return {"o": {"y": y, "sticky": sticky}}
