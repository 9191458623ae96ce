"""Speed and memory of the project's programs, of which some have limits.

    python -m benchmarks [NAME]...

Without a name all of them are measured, but for ``compiled``, which needs SmolLM2. The exit code is
1 where a limit is exceeded.
"""

import argparse
import os
import resource
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from unittest.mock import patch

import numpy as np

from benchmarks.race import Call, Figure, race, seconds
from tilewright.claims.scoreboard import answer, evaluate, scoreboard_claims
from tilewright.sim.deca_stream import _stream
from tilewright.sim.roofsurface import Surface
from tilewright.sim.serving import Question
from tilewright.sim.sweep import sweep
from tilewright.sim.xeon import SYSTEMS

POINTS = 1_000_000


def command(*argv: str) -> tuple[float, int]:
    """Seconds of one command of ours, and the most bytes that it had in memory."""
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


@contextmanager
def _empty_cache() -> Iterator[None]:
    """Caches of ours in a folder that is empty, until the end of the block."""
    with (
        tempfile.TemporaryDirectory(prefix="tilewright-") as folder,
        patch.dict(os.environ, XDG_CACHE_HOME=folder),
    ):
        yield


def compiled(name: str = "smollm2", tokens: int = 16) -> Iterator[Figure]:
    """A real model on the golden accelerator: compiling it, and one more token.

    Memory of compiling is that of the command, with the mapped part of the model file.
    """
    from tilewright.compiler.folder import open_folder
    from tilewright.compiler.host import Runner

    with tempfile.TemporaryDirectory() as place:
        folder = Path(place) / "model"
        taken, peak = command("compile", name, "-o", str(folder))
        yield Figure("compile", taken)
        yield Figure("compile: memory", peak / 1e9, "GB")
        runner = Runner(open_folder(folder, check=False))
        runner.feed([1, 2, 3, 4, 5])  # unpacks the weights
        busy = time.process_time()
        taken = seconds(lambda: [runner.feed([100 + token]) for token in range(tokens)])
        yield Figure("a token", taken / tokens, limit=1.0)  # on two cores
        yield Figure("a token: processor time", (time.process_time() - busy) / tokens)
        peak = 1024 * resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
        yield Figure("run: memory", peak / 1e9, "GB", 3.0)


# --- the performance model


def roof_surface() -> None:
    rng = np.random.default_rng(1)
    x, y = rng.uniform(1e-3, 1e-1, (2, POINTS))
    surface = Surface.of_cores(SYSTEMS["spr-hbm"])
    surface.fma(x, y, 16)


def table6() -> None:
    _stream.cache_clear()
    for claim in scoreboard_claims("deca"):
        if claim.table.startswith("DECA Table 6"):
            answer(claim)


def scoreboard() -> None:
    _stream.cache_clear()
    evaluate()


def points(model: str, **words: str) -> None:
    axes = {"batch": range(1, 101), "context": range(100, 10100, 100)}
    with _empty_cache():  # nor is any program of an accelerator known
        sweep(Question(model=model, **words), axes)  # type: ignore[arg-type]


def model() -> Iterator[Figure]:
    prefill = ("llm", "llama-2-7b", "--phase", "prefill", "--context", "1024")
    quick: dict[str, Call] = {
        f"Roof-Surface of {POINTS:,} points": roof_surface,
        "all of Table 6": table6,
        "tilewright llm, start to finish": lambda: command(*prefill),
    }
    for name, task in quick.items():
        yield Figure(name, race({"": task}, 3)[""].least, limit=1.0)
    yield Figure("the whole scoreboard", seconds(scoreboard), limit=60.0)
    llama = {"model": "llama-3.1-8b"}
    sweeps: dict[str, dict[str, str]] = {
        "llama-3.1-8b": llama,
        "deepseek-v3": {"model": "deepseek-v3"},
        "deepseek-v3, prefill": {"model": "deepseek-v3", "phase": "prefill"},
        "llama-3.1-8b on fp-fp": llama | {"system": "fp-fp"},
    }
    for name, words in sweeps.items():
        taken = seconds(lambda words=words: points(**words))  # type: ignore[misc]
        yield Figure(f"10,000 points of {name}", taken, limit=60.0)


BENCHES = {"model": model, "compiled": compiled}


def main(words: list[str] | None = None) -> int:
    formatter = argparse.RawDescriptionHelpFormatter
    parser = argparse.ArgumentParser("benchmarks", description=__doc__, formatter_class=formatter)
    parser.add_argument("names", nargs="*", metavar="NAME", help=", ".join(BENCHES))
    args = parser.parse_args(words)
    if unknown := sorted(set(args.names) - set(BENCHES)):
        parser.error(f"no benchmark {unknown[0]!r}: there are {', '.join(BENCHES)}")
    good = True
    for name in args.names or [name for name in BENCHES if name != "compiled"]:
        for figure in BENCHES[name]():
            print(figure, flush=True)
            good &= figure.good
    return 0 if good else 1


if __name__ == "__main__":
    sys.exit(main())
