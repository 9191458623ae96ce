"""Bench of the float unpacker: corner patterns, subnormals, uniform patterns."""

import numpy as np
from numpy.random import Generator

from tilewright.golden.bits import unpack
from tilewright.golden.pack import Columns
from tilewright.golden.params.arith import FloatUnpackParams
from tilewright.golden.vectors import operands


def stimulus(params: FloatUnpackParams, rng: Generator, cases: int) -> dict[str, Columns]:
    fmt = params.format
    (x,) = operands([fmt], rng, cases)
    # Uniform patterns are hardly ever subnormal, and those are what is normalised.
    sign_and_fraction = x & ((1 << (fmt.bits - 1)) | ((1 << fmt.mantissa_bits) - 1))
    return {"i": {"x": np.where(rng.random(cases) < 0.3, sign_and_fraction, x)}}


def expected(params: FloatUnpackParams, columns: dict[str, Columns]) -> dict[str, Columns]:
    parts = unpack(params.format, columns["i"]["x"], params.operand_subnormals)
    return {"o": {name: np.asarray(part, np.int64) for name, part in parts._asdict().items()}}
