"""Bench of the FP-INT element."""

from numpy.random import Generator

from tilewright.golden.pack import Columns
from tilewright.golden.params.pe import FpIntParams
from tilewright.golden.pe import fp_int_dot
from tilewright.verify.pe_stimuli import (
    beats_of,
    flags,
    floats,
    hide_large,
    scales,
    unused,
    weights,
)


def stimulus(params: FpIntParams, rng: Generator, cases: int) -> dict[str, Columns]:
    activation = floats(rng, cases, params.lanes)
    weight = hide_large(rng, activation, weights(params, rng, cases))
    operands = {"activation": activation, "weight": weight}
    columns = operands | unused(rng, cases) | flags(params, rng, cases)
    return {"i": columns | {"scale": scales(rng, cases)}}


def expected(params: FpIntParams, columns: dict[str, Columns]) -> dict[str, Columns]:
    x = beats_of(params, columns["i"])
    y = fp_int_dot(params, x["activation"], x["weight"], x["scale"], x["group_end"])
    return {"o": {"y": y}}
