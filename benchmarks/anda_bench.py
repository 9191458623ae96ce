"""Speed of the Anda golden GEMM: a layer of a 7-billion-parameter model, every rounding step.

    python -m benchmarks.anda_bench [--json]

With it, numpy's float32 product of the same shape, which rounds nothing on the way.
"""

import sys
from collections.abc import Iterator

import numpy as np

from benchmarks.race import Figure, main, seconds
from tilewright.golden import bfp
from tilewright.golden.anda import gemm, quantise
from tilewright.golden.params.anda import AndaNumerics

ROWS, SIZE = 2048, 4096  # of activations; inputs and outputs
MANTISSA = 8  # bits
LIMIT = 60.0  # seconds on 2 cores


def measure(rows: int = ROWS, size: int = SIZE) -> Iterator[Figure]:
    """One product each."""
    rng = np.random.default_rng(1)
    numerics = AndaNumerics()
    activations = rng.standard_normal((rows, size)).astype(np.float16)
    matrix = rng.standard_normal((size, size)).astype(np.float32)
    weights = quantise(matrix)
    blocks = bfp.encode(numerics.block_format(MANTISSA), activations.view(np.uint16))
    wide = activations.astype(np.float32)
    golden = seconds(lambda: gemm(numerics, MANTISSA, blocks, weights))
    yield Figure(f"{rows} x {size} x {size}, M = {MANTISSA}", golden, limit=LIMIT * rows / ROWS)
    yield Figure("the same in float32", seconds(lambda: wide @ matrix.T))


if __name__ == "__main__":
    sys.exit(main(__doc__, measure))
