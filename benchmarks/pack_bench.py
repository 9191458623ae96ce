"""Speed and memory of ``tilewright pack`` and ``unpack`` on a file of one large matrix.

    python -m benchmarks.pack_bench [--json]

Each run is a process of its own whose peak resident memory is measured, less that of packing a
single tile, which is the interpreter and its libraries.
"""

import os
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from time import perf_counter

import numpy as np

from benchmarks.race import Figure, main
from tilewright.golden.tensorfile import TensorFileWriter
from tilewright.studies.model_files import open_model

ROWS = COLUMNS = 4096
LIMIT = 3.0  # times the largest tensor
CASES = (
    *("mxfp4", "mxfp4 --density 0.3", "bf8", "bf8 --density 0.3", "nf4"),
    *("bf16 --density 0.5", "int8_tile"),
)


def run(*argv: str) -> tuple[float, int]:
    """Seconds and peak resident bytes of one command."""
    start = perf_counter()
    arguments = [sys.executable, "-m", "tilewright", *argv]
    with open(os.devnull, "wb") as nothing:
        quiet = [(os.POSIX_SPAWN_DUP2, nothing.fileno(), stream) for stream in (1, 2)]
        child = os.posix_spawn(sys.executable, arguments, os.environ, file_actions=quiet)
        _, status, usage = os.wait4(child, 0)
    if status:
        raise SystemExit(f"{' '.join(argv)} failed")
    unit = 1 if sys.platform == "darwin" else 1024  # ru_maxrss: bytes there, KiB elsewhere
    return perf_counter() - start, usage.ru_maxrss * unit


def write_model(path: Path) -> None:
    """A file of one bf16 matrix."""
    with open_model(f"synthetic:{ROWS}x{COLUMNS}") as tensors, open(path, "wb") as file:
        writer = TensorFileWriter(file, [("weight", 2)])
        region = writer.region("weight", "BF16", (ROWS, COLUMNS))
        for piece in tensors["weight"].raw():
            region.write((piece.view(np.uint32) >> 16).astype("<u2"))
        writer.close({})


def measure() -> Iterator[Figure]:
    """Weights a second and memory over the tensor's, for both directions of every scheme."""
    with tempfile.TemporaryDirectory() as name:
        model, packed, back = (f"{name}/{part}.safetensors" for part in ("model", "packed", "back"))
        write_model(Path(model))
        for case in CASES:
            options = ["--scheme", *case.split()]
            _, floor = run("pack", "synthetic:16x64", *options, "-o", f"{name}/tile")
            for command, argv in (
                ("pack", [model, *options, "-o", packed]),
                ("unpack", [packed, "--reference", model, "-o", back]),
            ):
                taken, peak = run(command, *argv)
                yield Figure(f"{command} {case}", ROWS * COLUMNS / taken / 1e6, "M/s")
                ratio = max(0, peak - floor) / (2 * ROWS * COLUMNS)
                yield Figure(f"{command} {case}: memory over the tensor", ratio, "", LIMIT)


if __name__ == "__main__":
    sys.exit(main(__doc__, measure))
