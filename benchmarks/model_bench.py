"""Speed of the performance model, beside peers where there are any: one run, the same machine.

    python -m benchmarks.model_bench [--json] [--peer NAME=COMMAND]...

GenZ and ZigZag are run when they are installed (``pip install genz-llm zigzag-dse``): a prefill of
Llama-2-7B, their imports included, as ours is; ZigZag each distinct product once. Any other peer is
named with the command that runs it.
"""

import argparse
import importlib.util
import json
import os
import shlex
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from dataclasses import asdict, dataclass
from unittest.mock import patch

import numpy as np

from tilewright.claims.scoreboard import answer, evaluate, scoreboard_claims
from tilewright.sim.deca_stream import _stream
from tilewright.sim.roofsurface import Surface
from tilewright.sim.serving import Question
from tilewright.sim.xeon import SYSTEMS
from tilewright.studies.llm_sweep import run_llm_sweep

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


@dataclass
class Result:
    task: str
    seconds: float
    limit: float | None  # seconds; None where there is no target

    @property
    def good(self) -> bool:
        return self.limit is None or self.seconds <= self.limit


def best(task: Callable[[], object], rounds: int = ROUNDS) -> float:
    times = []
    for _ in range(rounds):
        start = time.perf_counter()
        task()
        times.append(time.perf_counter() - start)
    return min(times)


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
    """A sweep as the command does it, on all cores, whose processes start too."""
    axes = {"batch": range(1, 101), "context": range(100, 10100, 100)}
    return lambda: run_llm_sweep(Question(model=model, **words), axes)  # type: ignore[arg-type]


def new_sweep_of(model: str, **words: str) -> Callable[[], object]:
    """The same on an accelerator of whose programs none is known."""

    def sweep() -> None:
        with (
            tempfile.TemporaryDirectory() as folder,
            patch.dict(os.environ, {"XDG_CACHE_HOME": folder}),
        ):
            sweep_of(model, **words)()

    return sweep


def process(command: list[str]) -> Callable[[], object]:
    return lambda: subprocess.run(command, check=True, capture_output=True)


def run(peers: dict[str, list[str]]) -> list[Result]:
    results = [
        Result(f"Roof-Surface and region of {POINTS:,} points", best(roof_surface), 1.0),
        Result("all of Table 6", best(table6), 1.0),
        Result("tilewright llm, start to finish", best(process(OURS)), 1.0),
        Result("the whole scoreboard", best(scoreboard, 1), 60.0),
        *(
            Result(f"10,000 points of {model}, {words or 'decode'}", best(task, 1), 60.0)
            for model, words, task in (
                ("llama-3.1-8b", "", sweep_of("llama-3.1-8b")),
                ("deepseek-v3", "", sweep_of("deepseek-v3")),
                ("deepseek-v3", "prefill", sweep_of("deepseek-v3", phase="prefill")),
                ("llama-3.1-8b", "on fp-fp", sweep_of("llama-3.1-8b", system="fp-fp")),
                *(
                    ("llama-3.1-8b", f"{phase} on {system}", sweep)
                    for system in ("harmonia", "anda")
                    for phase in ("decode", "prefill")
                    for sweep in [new_sweep_of("llama-3.1-8b", system=system, phase=phase)]
                ),
            )
        ),
    ]
    return results + [
        Result(f"{name}, start to finish", best(process(command), 1), None)
        for name, command in peers.items()
    ]


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--json", action="store_true")
    parser.add_argument("--peer", action="append", default=[], metavar="NAME=COMMAND")
    args = parser.parse_args()
    peers = {}
    for name, (module, arguments) in PEERS.items():
        if importlib.util.find_spec(module):
            peers[name] = [sys.executable, *arguments]
        else:
            print(f"{name} is not installed and left out", file=sys.stderr)
    for text in args.peer:
        name, _, command = text.partition("=")
        peers[name] = shlex.split(command)
    results = run(peers)
    if args.json:
        print(json.dumps([asdict(r) | {"good": r.good} for r in results], indent=2))
    else:
        for r in results:
            limit = "" if r.limit is None else f"  (at most {r.limit:g} s)"
            print(f"{r.seconds:9.3f} s  {r.task}{limit}{'' if r.good else '  MISSED'}")
    return 0 if all(r.good for r in results) else 1


if __name__ == "__main__":
    sys.exit(main())
