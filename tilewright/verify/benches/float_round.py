"""Bench of the rounder: every leading-zero count, ties, both ends of the exponent range."""

import numpy as np
from numpy.random import Generator

from tilewright.golden.bits import round_pack
from tilewright.golden.pack import Columns
from tilewright.golden.params.arith import FloatRoundParams


def stimulus(params: FloatRoundParams, rng: Generator, cases: int) -> dict[str, Columns]:
    width, fmt = params.significand_bits, params.format
    significand = rng.integers(0, 1 << width, cases, np.uint64)
    significand >>= rng.integers(0, width, cases, np.uint64, endpoint=True)
    cleared = rng.integers(0, width, cases, np.uint64)
    significand = np.where(rng.random(cases) < 0.5, significand >> cleared << cleared, significand)
    reach = 1 << (params.exponent_bits - 1)
    exponent = rng.integers(-reach, reach, cases)
    near = rng.integers(fmt.min_exponent - fmt.mantissa_bits - 2, fmt.max_exponent + width, cases)
    exponent = np.where(rng.random(cases) < 0.8, np.clip(near, -reach, reach - 1), exponent)
    return {
        "i": {
            "significand": significand,
            "exponent": exponent,
            "sign": rng.integers(0, 2, cases),
            "sticky": rng.integers(0, 2, cases) & (significand != 0),
            "infinite": (rng.random(cases) < 0.03).astype(np.int64),
            "nan": (rng.random(cases) < 0.03).astype(np.int64),
        }
    }


def expected(params: FloatRoundParams, columns: dict[str, Columns]) -> dict[str, Columns]:
    x = columns["i"]
    y = round_pack(
        params.format,
        x["sign"].astype(bool),
        x["exponent"],
        x["significand"],
        x["sticky"].astype(bool),
        params.rules,
        significand_bits=params.significand_bits,
        infinite=x["infinite"].astype(bool),
        nan=x["nan"].astype(bool),
    )
    return {"o": {"y": y}}
