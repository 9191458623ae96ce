"""Bench of the population count: masks of every density."""

from numpy.random import Generator

from golden.integer import popcount
from golden.pack import Columns
from golden.params.arith import PopcountParams
from tilewright.bench.stimuli import random_masks


def stimulus(params: PopcountParams, rng: Generator, cases: int) -> dict[str, Columns]:
    return {"i": {"mask": random_masks(rng, cases, params.width)}}


def expected(params: PopcountParams, columns: dict[str, Columns]) -> dict[str, Columns]:
    return {"o": {"count": popcount(columns["i"]["mask"])}}
