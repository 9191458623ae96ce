"""Bench of the FP-FP element."""

from numpy.random import Generator

from tilewright.golden.pack import Columns
from tilewright.golden.params.pe import FpFpParams
from tilewright.golden.pe import fp_fp_dot
from tilewright.verify.pe_stimuli import beats_of, flags, floats, hide_large, unused


def stimulus(params: FpFpParams, rng: Generator, cases: int) -> dict[str, Columns]:
    weight = floats(rng, cases, params.lanes)
    activation = hide_large(rng, weight, floats(rng, cases, params.lanes))
    operands = {"activation": activation, "weight": weight}
    return {"i": operands | unused(rng, cases) | flags(params, rng, cases)}


def expected(params: FpFpParams, columns: dict[str, Columns]) -> dict[str, Columns]:
    x = beats_of(params, columns["i"])
    return {"o": {"y": fp_fp_dot(params, x["activation"], x["weight"])}}
