"""Bench of the FP-FP element."""

from numpy.random import Generator

from golden.pack import Columns
from golden.params.pe import FpFpParams
from golden.pe import fp_fp_dot
from tilewright.bench.pe_stimuli import beats_of, flags, floats, unused


def stimulus(params: FpFpParams, rng: Generator, cases: int) -> dict[str, Columns]:
    operands = {
        "activation": floats(rng, cases, params.lanes),
        "weight": floats(rng, cases, params.lanes),
    }
    return {"i": operands | unused(rng, cases) | flags(params, rng, cases)}


def expected(params: FpFpParams, columns: dict[str, Columns]) -> dict[str, Columns]:
    x = beats_of(params, columns["i"])
    return {"o": {"y": fp_fp_dot(params, x["activation"], x["weight"])}}
