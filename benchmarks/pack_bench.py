"""Speed and memory of ``tilewright pack`` and ``unpack`` on a file of one large matrix.

    python -m benchmarks.pack_bench [--json] [--rows N] [--columns N]

Each run is a process of its own whose peak resident memory is measured, less that of packing a
single tile, which is the interpreter and its libraries. The matrix is bf16, so three times its
bytes, the limit, is 6 bytes per weight.
"""

import argparse
import json
import os
import sys
import tempfile
import time
from dataclasses import asdict, dataclass
from pathlib import Path

import numpy as np

from tilewright.golden.tensorfile import TensorFileWriter
from tilewright.studies.model_files import open_model

LIMIT = 3.0  # times the largest tensor
CASES = (
    ("mxfp4", None),
    ("mxfp4", "0.3"),
    ("bf8", None),
    ("bf8", "0.3"),
    ("nf4", None),
    ("bf16", "0.5"),
    ("int8_tile", None),
)


@dataclass
class Result:
    command: str
    scheme: str
    density: str | None
    seconds: float
    weights_per_second: float
    memory_ratio: float  # peak resident bytes over the tensor's

    @property
    def verdict(self) -> bool:
        return self.memory_ratio < LIMIT


def run(*argv: str) -> tuple[float, int]:
    """Seconds and peak resident bytes of one command."""
    start = time.perf_counter()
    arguments = [sys.executable, "-m", "tilewright", *argv]
    with open(os.devnull, "wb") as nothing:
        quiet = [(os.POSIX_SPAWN_DUP2, nothing.fileno(), stream) for stream in (1, 2)]
        child = os.posix_spawn(sys.executable, arguments, os.environ, file_actions=quiet)
        _, status, usage = os.wait4(child, 0)
    if status:
        raise SystemExit(f"{' '.join(argv)} failed")
    unit = 1 if sys.platform == "darwin" else 1024  # ru_maxrss: bytes there, KiB elsewhere
    return time.perf_counter() - start, usage.ru_maxrss * unit


def write_model(path: Path, rows: int, columns: int) -> None:
    with open_model(f"synthetic:{rows}x{columns}") as tensors, open(path, "wb") as file:
        writer = TensorFileWriter(file, [("weight", 2)])
        region = writer.region("weight", "BF16", (rows, columns))
        for piece in tensors["weight"].raw():
            region.write((piece.view(np.uint32) >> 16).astype("<u2"))
        writer.close({})


def measure(folder: Path, rows: int, columns: int) -> list[Result]:
    model, packed, back = (folder / f"{name}.safetensors" for name in ("model", "packed", "back"))
    write_model(model, rows, columns)
    results = []
    for scheme, density in CASES:
        options = ["--scheme", scheme, *(["--density", density] if density else [])]
        _, floor = run("pack", "synthetic:16x64", *options, "-o", str(folder / "tile"))
        for command, argv in (
            ("pack", ["pack", str(model), *options, "-o", str(packed)]),
            ("unpack", ["unpack", str(packed), "--reference", str(model), "-o", str(back)]),
        ):
            seconds, peak = run(*argv)
            ratio = max(0, peak - floor) / (2 * rows * columns)
            rate = rows * columns / seconds
            results.append(Result(command, scheme, density, seconds, rate, ratio))
    return results


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--json", action="store_true")
    parser.add_argument("--rows", type=int, default=4096)
    parser.add_argument("--columns", type=int, default=4096)
    args = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        results = measure(Path(folder), args.rows, args.columns)
    if args.json:
        print(json.dumps([{**asdict(r), "verdict": r.verdict} for r in results], indent=2))
    else:
        for r in results:
            print(
                f"{r.command:7}{r.scheme:10} density {r.density or 'dense':6}"
                f"{r.seconds:7.2f} s {r.weights_per_second / 1e6:7.2f} M weights/s,"
                f" memory {r.memory_ratio:.2f} of the tensor"
                f" (limit {LIMIT}): {'ok' if r.verdict else 'TOO MUCH'}"
            )
    return 0 if all(r.verdict for r in results) else 1


if __name__ == "__main__":
    sys.exit(main())
