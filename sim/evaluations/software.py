"""Instructions of our own kernels, counted by the golden model of their every step."""

from collections import Counter

import numpy as np

from tilewright.golden.deca import resolve_scheme
from tilewright.golden.params.sparamx import Order, WeightFormat
from tilewright.golden.sparamx import linear
from tilewright.golden.sparamx.core import Core, prefix_sum
from tilewright.golden.sparamx.software_deca import tile_instructions
from tilewright.sim.claims.classes import ClaimClass
from tilewright.sim.evaluations.registry import evaluation
from tilewright.sim.scheme import resolve_weight_scheme

__all__ = ["kernel_instructions", "prefix_steps", "software_instructions"]

MATRIX = ("tileloadd", "tdpbf16ps")  # the matrix unit's own instructions


@evaluation(ClaimClass.PREDICTION)
def software_instructions(scheme: str, kind: str) -> float:
    """Instructions for one weight tile: all, or ``vector``, those of decompression alone."""
    weights, counts = resolve_weight_scheme(scheme), Counter({"tileloadd": 2, "tdpbf16ps": 1})
    if weights.compressed:
        sparse = str(weights.config.sparse).lower()
        counts = tile_instructions(resolve_scheme(f"{scheme.partition('_')[0]},sparse={sparse}"))
    matrix = sum(count for name, count in counts.items() if name in MATRIX)
    return float(sum(counts.values()) - (matrix if kind == "vector" else 0))


@evaluation(ClaimClass.PARAMETER)
def kernel_instructions(instruction: str) -> float:
    """How often our sparse bf16 kernel uses an instruction for one tile of weights."""
    return float(linear.tile_instructions(WeightFormat(), Order.TILE)[instruction])


@evaluation(ClaimClass.PARAMETER)
def prefix_steps(rows: int) -> float:
    """How many shifts and additions the kernel's prefix sum over the rows of a tile takes."""
    core = Core()
    prefix_sum(core, np.zeros((1, rows), np.uint32))
    return float(core.counts["valign"])
