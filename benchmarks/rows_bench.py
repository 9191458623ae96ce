"""Where many rows of activations pay for strips by pairs, and where stock PyTorch would be faster.

    python -m benchmarks.rows_bench [FILE]

Needs PyTorch and a processor with AMX; prints milliseconds of a layer, half of its weights zero.
"""

import json
import sys
from statistics import median
from time import perf_counter

import torch

from tilewright.kernels.library import library
from tilewright.kernels.torch_layers import SparseLinear

SHAPES = ((4096, 4096), (4096, 14336), (14336, 4096))
ROWS = (4, 8, 16, 32, 48, 64, 96, 128, 192, 256, 512)
NEVER = 1 << 30
COPIES, ROUNDS = 6, 5


def main() -> None:
    rows = []
    for inputs, outputs in SHAPES:
        stock = [
            torch.nn.Linear(inputs, outputs, bias=False, dtype=torch.bfloat16)
            for _ in range(COPIES)
        ]
        sparse = [SparseLinear.of(layer, 0.5) for layer in stock]
        for batch in ROWS:
            x = torch.randn(batch, inputs, dtype=torch.bfloat16)
            times: dict[str, list[float]] = {}
            for lap in range(ROUNDS + 1):
                for name, layers, limit in (
                    ("stock", stock, NEVER),
                    ("strips", sparse, NEVER),
                    ("pairs", sparse, 1),
                ):
                    library().tw_set_many_rows(limit)
                    start = perf_counter()
                    with torch.inference_mode():
                        for layer in layers:
                            layer(x)
                    if lap:
                        times.setdefault(name, []).append((perf_counter() - start) / COPIES)
            found = {name: 1e3 * median(laps) for name, laps in times.items()}
            print(f"{inputs}x{outputs}", batch, {k: round(v, 3) for k, v in found.items()})
            rows.append({"inputs": inputs, "outputs": outputs, "rows": batch, **found})
    if len(sys.argv) > 1:
        with open(sys.argv[1], "w") as file:
            json.dump(rows, file, indent=1)


if __name__ == "__main__":
    main()
