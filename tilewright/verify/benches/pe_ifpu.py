"""Bench of the iFPU element: as that of FIGNA, with weights bit by bit."""

import numpy as np
from numpy.random import Generator

from tilewright.golden.pack import Columns
from tilewright.golden.params.pe import IfpuParams
from tilewright.verify.benches import pe_figna
from tilewright.verify.benches.pe_figna import expected

__all__ = ["expected", "stimulus"]


def stimulus(params: IfpuParams, rng: Generator, cases: int) -> dict[str, Columns]:
    columns = pe_figna.stimulus(params, rng, cases)["i"]
    shape = (cases, params.beat_elements)
    # Whole beats of ones and zeros, and everything between.
    columns["weight"] = (rng.random(shape) < rng.choice([0.0, 0.5, 1.0], (cases, 1))).astype(int)
    # Activations stay for all bits of their weights.
    first = np.arange(cases) // params.weight_bits * params.weight_bits
    columns["activation"] = columns["activation"][first]
    return {"i": columns}
