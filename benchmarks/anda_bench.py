"""Speed of the Anda golden GEMM: a layer of a 7-billion-parameter model, every rounding step.

    python -m benchmarks.anda_bench [--json] [--rows N] [--mantissa M]

Beside it, numpy's float32 product of the same shape, which rounds nothing on the way.
"""

import argparse
import json
import sys
import time
from collections.abc import Callable

import numpy as np

from tilewright.golden import bfp
from tilewright.golden.anda import gemm, quantise
from tilewright.golden.params.anda import AndaNumerics

SIZE = 4096  # inputs and outputs
LIMIT = 60.0  # seconds for 2048 rows on 2 cores


def seconds(run: Callable[[], object]) -> float:
    start = time.perf_counter()
    run()
    return time.perf_counter() - start


def measure(rows: int, mantissa_bits: int) -> dict[str, float]:
    rng = np.random.default_rng(1)
    numerics = AndaNumerics()
    activations = rng.standard_normal((rows, SIZE)).astype(np.float16)
    matrix = rng.standard_normal((SIZE, SIZE)).astype(np.float32)
    weights = quantise(matrix)
    blocks = bfp.encode(numerics.block_format(mantissa_bits), activations.view(np.uint16))
    wide = activations.astype(np.float32)
    return {
        "rows": rows,
        "mantissa_bits": mantissa_bits,
        "golden_s": seconds(lambda: gemm(numerics, mantissa_bits, blocks, weights)),
        "float32_s": seconds(lambda: wide @ matrix.T),
        "limit_s": LIMIT * rows / 2048,
    }


def main(arguments: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="anda_bench", description=__doc__.splitlines()[0])
    parser.add_argument("--json", action="store_true", help="print the figures as JSON")
    parser.add_argument("--rows", type=int, default=2048, help="rows of activations (2048)")
    parser.add_argument("--mantissa", type=int, default=8, help="mantissa bits (8)")
    options = parser.parse_args(arguments)
    figures = measure(options.rows, options.mantissa)
    if options.json:
        print(json.dumps(figures, indent=2))
    else:
        print(
            f"{options.rows} x {SIZE} x {SIZE}, M = {options.mantissa}:"
            f" {figures['golden_s']:.1f} s, limit {figures['limit_s']:.0f} s;"
            f" float32 product {figures['float32_s']:.1f} s"
        )
    return 0 if figures["golden_s"] <= figures["limit_s"] else 1


if __name__ == "__main__":
    sys.exit(main())
