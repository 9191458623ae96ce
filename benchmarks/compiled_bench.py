"""Speed and memory of a real model on the golden accelerator: compiling it, and one more token.

    python -m benchmarks.compiled_bench [--json]

Peak memory of compiling is that of the process, with the mapped part of the model file.
"""

import json
import resource
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

from benchmarks.race import Figure, main, seconds
from tilewright.compiler.compile import Options, compile_model
from tilewright.compiler.folder import open_folder
from tilewright.compiler.host import Runner

MODEL, TOKENS = "smollm2", 16
LIMIT = 1.0  # seconds of a token on two cores
MOST_MEMORY = 3.0  # gigabytes of a run


def peak() -> float:
    """The most gigabytes that this process has had in memory."""
    return 1024 * resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1e9


def compile_here(folder: str) -> None:
    """Compile, and print seconds and peak memory as JSON."""
    before = peak()
    taken = seconds(lambda: compile_model(MODEL, Path(folder), Options()))
    print(json.dumps([taken, peak() - before]))


def measure() -> Iterator[Figure]:
    """Compile in a process of its own, whose peak is that of compiling alone; then decode."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name) / "model"
        code = f"from benchmarks.compiled_bench import compile_here; compile_here({str(folder)!r})"
        answer = subprocess.check_output([sys.executable, "-c", code], text=True)
        taken, memory = json.loads(answer.splitlines()[-1])
        yield Figure("compile", taken)
        yield Figure("compile: memory", memory, "GB")
        runner = Runner(open_folder(folder, check=False))
        runner.feed([1, 2, 3, 4, 5])  # unpacks the weights
        busy = time.process_time()
        taken = seconds(lambda: [runner.feed([100 + token]) for token in range(TOKENS)])
        yield Figure("a token", taken / TOKENS, limit=LIMIT)
        yield Figure("a token: processor time", (time.process_time() - busy) / TOKENS)
        yield Figure("run: memory", peak(), "GB", MOST_MEMORY)


if __name__ == "__main__":
    sys.exit(main(__doc__, measure))
