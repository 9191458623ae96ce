"""Bench of the population count: masks of every density."""

from numpy.random import Generator

from tilewright.golden.integer import popcount
from tilewright.golden.pack import Columns
from tilewright.golden.params.arith import PopcountParams
from tilewright.verify.stimuli import random_masks


def stimulus(params: PopcountParams, rng: Generator, cases: int) -> dict[str, Columns]:
    return {"i": {"mask": random_masks(rng, cases, params.width)}}


def expected(params: PopcountParams, columns: dict[str, Columns]) -> dict[str, Columns]:
    return {"o": {"count": popcount(columns["i"]["mask"])}}
