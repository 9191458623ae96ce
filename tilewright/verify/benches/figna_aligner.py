"""Bench of the aligner."""

import numpy as np
from numpy.random import Generator

from tilewright.golden.pack import Columns
from tilewright.golden.params.pe import BENCH_BEATS, FignaAlignerParams
from tilewright.golden.pe import align
from tilewright.verify.pe_stimuli import floats


def stimulus(params: FignaAlignerParams, rng: Generator, cases: int) -> dict[str, Columns]:
    position = np.arange(cases) % BENCH_BEATS
    ends = (position == BENCH_BEATS - 1).astype(np.int64)
    return {"i": {"activation": floats(rng, cases, params.lanes), "group_end": ends}}


def expected(params: FignaAlignerParams, columns: dict[str, Columns]) -> dict[str, Columns]:
    x = columns["i"]
    groups = len(x["group_end"]) // BENCH_BEATS
    whole = groups * BENCH_BEATS
    values = x["activation"][:whole].reshape(groups, -1)
    words, exponent = align(params.mantissa_bits, values)
    return {
        "o": {
            "activation": words.reshape(whole, params.lanes),
            "exponent": np.repeat(exponent, BENCH_BEATS),
            "group_end": x["group_end"][:whole],
        }
    }
