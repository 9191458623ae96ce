"""Bench of the adder tree: extreme sums and random ones."""

from numpy.random import Generator

from tilewright.golden.integer import adder_tree
from tilewright.golden.pack import Columns
from tilewright.golden.params.arith import AdderTreeParams
from tilewright.verify.stimuli import random_inputs


def stimulus(params: AdderTreeParams, rng: Generator, cases: int) -> dict[str, Columns]:
    return random_inputs(params, rng, cases)


def expected(params: AdderTreeParams, columns: dict[str, Columns]) -> dict[str, Columns]:
    return {"o": {"sum": adder_tree(columns["i"]["terms"])}}
