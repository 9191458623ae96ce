"""Bench of the prefix sum: masks of every density."""

from numpy.random import Generator

from tilewright.golden.integer import prefix_sum
from tilewright.golden.pack import Columns
from tilewright.golden.params.arith import PrefixSumParams
from tilewright.verify.stimuli import random_masks


def stimulus(params: PrefixSumParams, rng: Generator, cases: int) -> dict[str, Columns]:
    return {"i": {"mask": random_masks(rng, cases, params.width)}}


def expected(params: PrefixSumParams, columns: dict[str, Columns]) -> dict[str, Columns]:
    index, total = prefix_sum(columns["i"]["mask"])
    return {"o": {"index": index, "total": total}}
