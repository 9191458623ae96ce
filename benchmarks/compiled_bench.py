"""Speed and memory of a real model on the golden accelerator: compiling it, and one more token.

    python -m benchmarks.compiled_bench [--json] [--tokens N]

Peak memory of compiling is that of the process, with the mapped part of the model file.
"""

import argparse
import json
import resource
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from tilewright.compiler.compile import Options, compile_model
from tilewright.compiler.folder import open_folder
from tilewright.compiler.host import Runner

MODEL = "smollm2"
LIMIT = 1.0  # seconds of a token on two cores
MOST_MEMORY = 3e9  # bytes of a run


def peak() -> int:
    """The most bytes that this process has had in memory."""
    return 1024 * resource.getrusage(resource.RUSAGE_SELF).ru_maxrss


def compiled(folder: Path) -> dict[str, float]:
    """Compile in a process of its own, whose peak is that of compiling alone."""
    words = (
        "import sys; from benchmarks.compiled_bench import compile_here as run; run(sys.argv[1])"
    )
    found = subprocess.check_output([sys.executable, "-c", words, str(folder)], text=True)
    values: dict[str, float] = json.loads(found.splitlines()[-1])
    return values


def compile_here(folder: str) -> None:
    before, start = peak(), time.perf_counter()
    done = compile_model(MODEL, Path(folder), Options())
    seconds = time.perf_counter() - start
    about = {"seconds": seconds, "image_bytes": done.image_bytes, "peak_bytes": peak() - before}
    print(json.dumps(about))


def generated(folder: Path, tokens: int) -> dict[str, float]:
    runner = Runner(open_folder(folder, check=False))
    runner.feed([1, 2, 3, 4, 5])  # unpacks the weights
    start, busy = time.perf_counter(), time.process_time()
    for token in range(tokens):
        runner.feed([100 + token])
    return {
        "tokens": tokens,
        "seconds_per_token": (time.perf_counter() - start) / tokens,
        "cpu_seconds_per_token": (time.process_time() - busy) / tokens,
        "peak_bytes": peak(),
    }


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--json", action="store_true", help="print JSON")
    parser.add_argument("--tokens", type=int, default=16, help="to generate [16]")
    args = parser.parse_args()
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name) / "model"
        found = {"compile": compiled(folder), "run": generated(folder, args.tokens)}
    if args.json:
        print(json.dumps(found, indent=1))
    else:
        for part, values in found.items():
            print(part, ", ".join(f"{key} {value:.4g}" for key, value in values.items()))
    run = found["run"]
    return int(run["seconds_per_token"] > LIMIT or run["peak_bytes"] > MOST_MEMORY)


if __name__ == "__main__":
    raise SystemExit(main())
