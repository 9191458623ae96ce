"""Bench of FIGNA; that of iFPU begins with it."""

import numpy as np
from numpy.random import Generator

from tilewright.golden.pack import Columns
from tilewright.golden.params.pe import AlignedParams
from tilewright.golden.pe import aligned_dot
from tilewright.verify.pe_stimuli import beats_of, flags, scales, weights


def stimulus(params: AlignedParams, rng: Generator, cases: int) -> dict[str, Columns]:
    top = (1 << params.mantissa_bits) - 1
    shape = (cases, params.beat_elements)
    # From short to long mantissas, whole beats of the longest among them.
    mantissa = rng.integers(0, top, shape, endpoint=True) >> rng.integers(
        0, params.mantissa_bits, shape
    )
    mantissa[rng.random(cases) < 0.2] = top
    sign = np.where(rng.random((cases, 1)) < 0.3, rng.integers(0, 2), rng.integers(0, 2, shape))
    # Any bits where no group ends: they must not matter.
    ends = flags(params, rng, cases)
    exponent = np.where(
        ends["group_end"], rng.integers(1, 30, cases, endpoint=True), rng.integers(0, 32, cases)
    )
    operands = {
        "activation": mantissa | (sign << params.mantissa_bits),
        "weight": weights(params, rng, cases),
        "exponent": exponent,
        "scale": scales(rng, cases),
    }
    return {"i": operands | ends}


def expected(params: AlignedParams, columns: dict[str, Columns]) -> dict[str, Columns]:
    x = beats_of(params, columns["i"])
    fields = ("activation", "weight", "exponent", "scale", "group_end")
    return {"o": {"y": aligned_dot(params, *(x[name] for name in fields))}}
