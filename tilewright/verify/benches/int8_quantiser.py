"""Bench of the int8 quantiser: corner groups among ordinary ones."""

import numpy as np
from numpy.random import Generator
from numpy.typing import NDArray

from tilewright.golden.harmonia import int8_quantiser
from tilewright.golden.pack import Columns
from tilewright.golden.params.harmonia import Int8QuantiserParams
from tilewright.verify.anda_groups import activations

MODULE = "tilewright.verify.timed_tests"


def stimulus(params: Int8QuantiserParams, rng: Generator, cases: int) -> dict[str, Columns]:
    """``cases`` beats, rounded up to whole groups."""
    count = -(-cases // params.group)
    pool = activations(rng, 64 + count * params.rows, params.group, finite=False)
    groups = rng.permutation(pool)[: count * params.rows].reshape(count, params.rows, params.group)
    return {"i": {"values": groups.swapaxes(1, 2).reshape(-1, params.rows)}}


def expected(params: Int8QuantiserParams, columns: dict[str, Columns]) -> dict[str, Columns]:
    return {"o": int8_quantiser.quantise(params, columns["i"])}


def cycles(params: Int8QuantiserParams, columns: dict[str, Columns]) -> NDArray[np.int64]:
    return int8_quantiser.cycles(params, columns["i"])
