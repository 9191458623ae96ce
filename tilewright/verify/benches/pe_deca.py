"""Bench of DECA's lanes with their share of a matrix unit."""

import numpy as np
from numpy.random import Generator

from tilewright.golden.bits import encode
from tilewright.golden.pack import Columns
from tilewright.golden.params.formats import BF16
from tilewright.golden.params.pe import DecaLaneParams
from tilewright.golden.pe import deca_lane_dot
from tilewright.golden.vectors import corners
from tilewright.verify.pe_stimuli import beats_of, flags, unused, weights


def stimulus(params: DecaLaneParams, rng: Generator, cases: int) -> dict[str, Columns]:
    shape = (cases, params.lanes)
    operands = {
        "activation": _floats(rng, shape, 8),
        "weight": weights(params, rng, cases),
        "exponent": unused(rng, cases)["exponent"],
        "scale": _floats(rng, (cases,), 6),
    }
    return {"i": operands | flags(params, rng, cases)}


def _floats(rng: Generator, shape: tuple[int, ...], spread: int) -> np.ndarray:
    """bf16 patterns: of ordinary size, some of any size, some at the edges of the format."""
    signs = rng.choice([-1, 1], shape)
    ordinary = encode(BF16, signs * np.exp2(rng.uniform(-spread, spread, shape)))
    wide = encode(BF16, signs * np.exp2(rng.uniform(-120, 120, shape)))
    kind = rng.choice(3, shape, p=[0.9, 0.07, 0.03])
    return np.choose(kind, [ordinary, wide, rng.choice(corners(BF16), shape)])


def expected(params: DecaLaneParams, columns: dict[str, Columns]) -> dict[str, Columns]:
    x = beats_of(params, columns["i"])
    fields = ("activation", "weight", "scale")
    return {"o": {"y": deca_lane_dot(params, *(x[name] for name in fields))}}
