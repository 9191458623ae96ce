"""Bench of the join: word k of the output holds word k of every input."""

import numpy as np
from numpy.random import Generator

from tilewright.golden.pack import Columns
from tilewright.golden.params.stream import JoinParams
from tilewright.verify.stimuli import random_inputs


def stimulus(params: JoinParams, rng: Generator, cases: int) -> dict[str, Columns]:
    return random_inputs(params, rng, cases)


def expected(params: JoinParams, columns: dict[str, Columns]) -> dict[str, Columns]:
    words = [columns[port.name]["data"] for port in params.inputs]
    return {"o": {"data": np.stack(words, axis=-1)}}
