"""Bench of the queue: words come out as they went in."""

from numpy.random import Generator

from tilewright.golden.pack import Columns
from tilewright.golden.params.stream import QueueParams
from tilewright.verify.stimuli import random_inputs


def stimulus(params: QueueParams, rng: Generator, cases: int) -> dict[str, Columns]:
    return random_inputs(params, rng, cases)


def expected(params: QueueParams, columns: dict[str, Columns]) -> dict[str, Columns]:
    return {"o": columns["i"]}
