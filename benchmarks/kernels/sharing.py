"""Sparse and stock models where processors are few or shared: one row for each situation.

Every situation has processes of its own, in which both models decode in turn: with fewer threads
than processors, on some of the processors alone, in two processes at the same time, and as two
models in two threads of one process. Times are those of the slower of two that run at once.
"""

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from functools import partial
from typing import Any

from benchmarks.race import race

MODELS = ("stock bf16", "sparse bf16")
# A child is told its situation before anything that reads the number of processors is imported.
CHILD = """
import json, os, sys
about = json.loads(sys.argv[1])
if about["processors"]:
    os.sched_setaffinity(0, sorted(os.sched_getaffinity(0))[: about["processors"]])
from benchmarks.kernels import sharing
sharing.serve(about)
"""
FEW = max(1, (os.cpu_count() or 1) // 4)
SITUATION: dict[str, Any] = {"threads": None, "processors": None, "processes": 1, "models": 1}
SITUATIONS: dict[str, dict[str, int]] = {
    "the whole machine": {},
    f"torch.set_num_threads({FEW})": {"threads": FEW},
    "torch.set_num_threads(1)": {"threads": 1},
    f"on {FEW} processors (taskset)": {"processors": FEW},
    "two processes at once": {"processes": 2},
    "two models in two threads of one process": {"models": 2},
}


def run(plan: dict[str, Any]) -> Iterator[tuple[str, dict[str, Any]]]:
    rows = []
    for name, about in SITUATIONS.items():
        row = measure({"plan": plan} | SITUATION | about)
        rows.append({"situation": name} | row)
        yield name, {"rows": rows}


def measure(about: dict[str, Any]) -> dict[str, Any]:
    rounds, tokens = about["plan"]["rounds"], about["plan"]["tokens"]
    with ExitStack() as stack:
        children = [stack.enter_context(child(about)) for _ in range(about["processes"])]
        wait(children)  # for their models
        laps = race({name: partial(ask, children, name) for name in MODELS}, rounds)
        for process in children:
            assert process.stdin is not None
            process.stdin.close()
    return {name: lap.row(tokens) for name, lap in laps.items()}


def child(about: dict[str, Any]) -> "subprocess.Popen[str]":
    """A process with both models that decodes with one whenever a line names it."""
    return subprocess.Popen(
        [sys.executable, "-W", "ignore", "-c", CHILD, json.dumps(about)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )


def ask(children: list["subprocess.Popen[str]"], name: str) -> None:
    for process in children:
        assert process.stdin is not None
        process.stdin.write(name + "\n")
        process.stdin.flush()
    wait(children)


def wait(children: list["subprocess.Popen[str]"]) -> None:
    for process in children:
        assert process.stdout is not None
        if not process.stdout.readline():
            raise SystemExit("a measured process has ended early")


def serve(about: dict[str, Any]) -> None:
    """The child's side: build the models, then a line in, decode, a line out."""
    import torch

    from benchmarks.kernels.models import Decoder, ModelPlan, packed_twin, random_model

    if about["threads"]:
        torch.set_num_threads(about["threads"])
    plan = ModelPlan(**about["plan"])
    models = [random_model(plan) for _ in range(about["models"])]
    with torch.inference_mode():
        decoders = {
            MODELS[0]: [Decoder(model, plan, 1) for model in models],
            MODELS[1]: [Decoder(packed_twin(model, "bf16", 0.5), plan, 1) for model in models],
        }
    print("ready", flush=True)

    def decode(decoder: Decoder) -> None:
        with torch.inference_mode():  # a thread's own
            decoder.decode(plan.tokens)

    with ThreadPoolExecutor(about["models"]) as pool:
        for line in sys.stdin:
            list(pool.map(decode, decoders[line.strip()]))
            print("done", flush=True)
