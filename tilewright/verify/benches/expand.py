"""Bench of the expansion crossbar: masks of every density, random words."""

from numpy.random import Generator

from tilewright.golden.integer import expand
from tilewright.golden.pack import Columns
from tilewright.golden.params.arith import ExpandParams
from tilewright.verify.stimuli import random_columns, random_masks


def stimulus(params: ExpandParams, rng: Generator, cases: int) -> dict[str, Columns]:
    (port,) = params.inputs
    columns = random_columns(port, rng, cases)
    columns["mask"] = random_masks(rng, cases, params.lanes)
    return {"i": columns}


def expected(params: ExpandParams, columns: dict[str, Columns]) -> dict[str, Columns]:
    fields = columns["i"]
    return {"o": {"y": expand(fields["x"], fields["mask"])}}
