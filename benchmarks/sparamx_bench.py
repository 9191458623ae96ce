"""How long packing takes: a layer of 4096 x 14336 in under a second.

    python -m benchmarks.sparamx_bench

The speed of multiplying is measured by ``tilewright kernels bench``.
"""

import sys
from time import perf_counter

import numpy as np

from tilewright.golden.params.sparamx import WeightFormat
from tilewright.golden.sparamx import pack
from tilewright.kernels import Matrix

SHAPE = (14336, 4096)  # outputs, inputs
LIMIT = 1.0  # seconds
ROUNDS = 3


def main() -> int:
    rng = np.random.default_rng(0)
    weights = rng.standard_normal(SHAPE, np.float32)
    weights[rng.random(SHAPE, np.float32) < 0.5] = 0
    bits = (weights.view(np.uint32) >> 16).astype(np.uint16)
    fmt = WeightFormat()
    Matrix.pack(fmt, bits[:16])  # compiles
    packed, times = None, []
    for _ in range(ROUNDS):
        start = perf_counter()
        packed = Matrix.pack(fmt, bits).packed
        times.append(perf_counter() - start)
    start = perf_counter()
    golden = pack(fmt, bits)
    seconds = perf_counter() - start
    same = packed is not None and np.array_equal(packed.values, golden.values)
    print(f"kernels {min(times):.3f} s (limit {LIMIT} s), golden {seconds:.2f} s, same: {same}")
    return 0 if same and min(times) < LIMIT else 1


if __name__ == "__main__":
    sys.exit(main())
