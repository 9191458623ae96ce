"""Speed of the performance model, and of peers where there are any: one run, the same machine.

    python -m benchmarks.model_bench [--json]

GenZ and ZigZag are run when they are installed (``pip install genz-llm zigzag-dse``): a prefill of
Llama-2-7B, their imports included, as ours is; ZigZag each distinct product once.
"""

import importlib.util
import os
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator
from unittest.mock import patch

import numpy as np

from benchmarks.race import Figure, main, race, seconds
from tilewright.claims.scoreboard import answer, evaluate, scoreboard_claims
from tilewright.sim.deca_stream import _stream
from tilewright.sim.roofsurface import Surface
from tilewright.sim.serving import Question
from tilewright.sim.sweep import sweep
from tilewright.sim.xeon import SYSTEMS

POINTS = 1_000_000
ROUNDS = 3
TOKENS = 1024
OURS = [
    *(sys.executable, "-m", "tilewright", "llm", "llama-2-7b", "--phase", "prefill"),
    *("--context", str(TOKENS)),
]
GENZ = (
    "from GenZ import prefill_moddeling;"
    f"prefill_moddeling(model='meta-llama/Llama-2-7B', batch_size=1, input_tokens={TOKENS})"
)
# Peer -> its module and the arguments of Python that run it.
PEERS = {
    "GenZ": ("GenZ", ["-c", GENZ]),
    "ZigZag": ("zigzag", ["-m", "benchmarks.zigzag_peer", "llama-2-7b", str(TOKENS)]),
}


def roof_surface() -> None:
    rng = np.random.default_rng(1)
    x, y = rng.uniform(1e-3, 1e-1, (2, POINTS))
    surface = Surface.of_cores(SYSTEMS["spr-hbm"])
    surface.fma(x, y, 16)
    surface.region(x, y)


def table6() -> None:
    _stream.cache_clear()
    for claim in scoreboard_claims("deca"):
        if claim.table.startswith("DECA Table 6"):
            answer(claim)


def scoreboard() -> None:
    _stream.cache_clear()
    evaluate()


def sweep_of(model: str, **words: str) -> Callable[[], object]:
    """A sweep as the command does it."""
    axes = {"batch": range(1, 101), "context": range(100, 10100, 100)}
    return lambda: sweep(Question(model=model, **words), axes)  # type: ignore[arg-type]


def new_sweep_of(model: str, **words: str) -> Callable[[], object]:
    """The same on an accelerator of whose programs none is known."""

    def run() -> None:
        with (
            tempfile.TemporaryDirectory() as folder,
            patch.dict(os.environ, {"XDG_CACHE_HOME": folder}),
        ):
            sweep_of(model, **words)()

    return run


def process(command: list[str]) -> Callable[[], object]:
    return lambda: subprocess.run(command, check=True, capture_output=True)


def measure() -> Iterator[Figure]:
    """Ours with their limits, then the peers that are installed."""
    few: dict[str, Callable[[], object]] = {
        f"Roof-Surface and region of {POINTS:,} points": roof_surface,
        "all of Table 6": table6,
        "tilewright llm, start to finish": process(OURS),
    }
    for name, task in few.items():
        yield Figure(name, race({"": task}, ROUNDS)[""].least, limit=1.0)
    sweeps = {
        "llama-3.1-8b": sweep_of("llama-3.1-8b"),
        "deepseek-v3": sweep_of("deepseek-v3"),
        "deepseek-v3, prefill": sweep_of("deepseek-v3", phase="prefill"),
        "llama-3.1-8b on fp-fp": sweep_of("llama-3.1-8b", system="fp-fp"),
    }
    for system in ("harmonia", "anda"):
        for phase in ("decode", "prefill"):
            new = new_sweep_of("llama-3.1-8b", system=system, phase=phase)
            sweeps[f"llama-3.1-8b, {phase} on {system}"] = new
    yield Figure("the whole scoreboard", seconds(scoreboard), limit=60.0)
    for name, task in sweeps.items():
        yield Figure(f"10,000 points of {name}", seconds(task), limit=60.0)
    for name, (module, arguments) in PEERS.items():
        if importlib.util.find_spec(module):
            taken = seconds(process([sys.executable, *arguments]))
            yield Figure(f"{name}, start to finish", taken)
        else:
            print(f"{name} is not installed and left out", file=sys.stderr)


if __name__ == "__main__":
    sys.exit(main(__doc__, measure))
