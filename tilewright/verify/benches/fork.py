"""Bench of the fork: every output gives what went in."""

from numpy.random import Generator

from tilewright.golden.pack import Columns
from tilewright.golden.params.stream import ForkParams
from tilewright.verify.stimuli import random_inputs


def stimulus(params: ForkParams, rng: Generator, cases: int) -> dict[str, Columns]:
    return random_inputs(params, rng, cases)


def expected(params: ForkParams, columns: dict[str, Columns]) -> dict[str, Columns]:
    return {port.name: columns["i"] for port in params.outputs}
