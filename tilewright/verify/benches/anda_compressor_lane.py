"""Bench of one compressor lane: every M, corner groups, infinities and NaNs."""

import numpy as np
from numpy.random import Generator

from tilewright.golden.pack import Columns
from tilewright.golden.params.anda import AndaCompressorLaneParams
from tilewright.verify.anda_groups import activations, mantissas
from tilewright.verify.benches.anda_compressor import plane_beats

# The tests of every stream unit, under a name of their own: a group takes M + 1 cycles.
MODULE = "tilewright.verify.anda_compressor_tests"


def stimulus(params: AndaCompressorLaneParams, rng: Generator, cases: int) -> dict[str, Columns]:
    values = activations(rng, cases, params.group, finite=False)
    return {"i": {"mantissa": mantissas(rng, cases), "values": values}}


def expected(params: AndaCompressorLaneParams, columns: dict[str, Columns]) -> dict[str, Columns]:
    x = columns["i"]
    beats = plane_beats(params.group, x["mantissa"], x["values"][:, np.newaxis])
    beats["word"] = beats.pop("words")[:, 0]
    beats["exponent"] = beats.pop("exponents")[:, 0]
    return {"o": beats}
