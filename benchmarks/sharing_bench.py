"""Sparse and stock models where processors are few or shared: one row for each situation.

    python -m benchmarks.sharing_bench -o sharing.json [--quick]

Every situation has processes of its own, in which both models decode in turn: with fewer threads
than processors, on some of the processors alone, in two processes at the same time, and as two
models in two threads of one process. Times are those of the slower of two that run at once.
"""

import argparse
import json
import os
import subprocess
import sys
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from dataclasses import asdict, replace
from pathlib import Path
from time import gmtime, perf_counter, strftime
from typing import Any

from tilewright.base.files import write_atomic

# A child is told its situation before anything that reads the number of processors is imported.
CHILD = """
import json, os, sys
about = json.loads(sys.argv[1])
if about["processors"]:
    os.sched_setaffinity(0, sorted(os.sched_getaffinity(0))[: about["processors"]])
from benchmarks import sharing_bench
sharing_bench.serve(about)
"""


def main() -> None:
    """Measure all situations and write the record."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n", 1)[0])
    parser.add_argument("-o", "--output", type=Path, required=True, help="the record")
    parser.add_argument("--quick", action="store_true", help="toys; says nothing about speed")
    args = parser.parse_args()
    from tilewright.kernels import whole
    from tilewright.kernels.machine import describe_machine

    plan = whole.quick_model_plan()
    if not args.quick:
        plan = replace(whole.full_model_plan(), num_hidden_layers=8, vocab_size=32000, rounds=9)
    record: dict[str, Any] = {
        "command": "python -m benchmarks.sharing_bench",
        "began": strftime("%Y-%m-%dT%H:%M:%SZ", gmtime()),
        "machine": asdict(describe_machine()),
        "plan": {k: v for k, v in asdict(plan).items() if k.startswith(("hidden", "inter", "num"))}
        | {"vocab_size": plan.vocab_size, "context": plan.context},
        "rows": [],
    }
    few = max(1, (os.cpu_count() or 1) // 4)
    for name, about in {
        "the whole machine": {},
        f"torch.set_num_threads({few})": {"threads": few},
        "torch.set_num_threads(1)": {"threads": 1},
        f"on {few} processors (taskset)": {"processors": few},
        "two processes at once": {"processes": 2},
        "two models in two threads of one process": {"models": 2},
    }.items():
        row = {"situation": name} | measure({"plan": asdict(plan)} | SITUATION | about, whole)
        record["rows"].append(row)
        times = {k: f"{1e3 * v['seconds']:.2f} ms" for k, v in row.items() if k != "situation"}
        print(name, times, flush=True)
        write_atomic(args.output, json.dumps(whole.rounded(record), indent=1) + "\n")


SITUATION: dict[str, Any] = {"threads": None, "processors": None, "processes": 1, "models": 1}


def measure(about: dict[str, Any], whole: Any) -> dict[str, Any]:
    """Seconds per token of stock and sparse models that take turns in one situation."""
    rounds, tokens = about["plan"]["rounds"], about["plan"]["tokens"]
    times: dict[str, list[float]] = {"stock bf16": [], "sparse bf16": []}
    with ExitStack() as stack:
        children = [stack.enter_context(child(about)) for _ in range(about["processes"])]
        for process in children:
            answer(process)  # its models are there
        for lap in range(rounds + 1):
            for name, laps in times.items():
                for process in children:
                    assert process.stdin is not None
                    process.stdin.write(name + "\n")
                    process.stdin.flush()
                slowest = max(answer(process) for process in children)
                if lap:  # the first round warms up
                    laps.append(slowest / tokens)
        for process in children:
            assert process.stdin is not None
            process.stdin.close()
    return {name: whole.summary(laps) for name, laps in times.items()}


def child(about: dict[str, Any]) -> "subprocess.Popen[str]":
    """A process with both models that decodes with one whenever a line names it."""
    root = str(Path(__file__).parents[1])
    path = os.pathsep.join(filter(None, (root, os.environ.get("PYTHONPATH"))))
    return subprocess.Popen(
        [sys.executable, "-W", "ignore", "-c", CHILD, json.dumps(about)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
        env={**os.environ, "PYTHONPATH": path},
    )


def answer(process: "subprocess.Popen[str]") -> float:
    """The seconds that a child prints next."""
    assert process.stdout is not None
    line = process.stdout.readline()
    if not line:
        raise SystemExit("a measured process has ended early")
    return float(line)


def serve(about: dict[str, Any]) -> None:
    """The child's side: build the models, then a line in, decode, seconds out."""
    import torch

    from tilewright.kernels import whole

    if about["threads"]:
        torch.set_num_threads(about["threads"])
    plan = whole.ModelPlan(**about["plan"])
    models = [whole.random_model(plan) for _ in range(about["models"])]
    with torch.inference_mode():
        decoders = {
            "stock bf16": [whole.Decoder(model, plan, 1) for model in models],
            "sparse bf16": [
                whole.Decoder(whole.packed_twin(model, "bf16", 0.5), plan, 1) for model in models
            ],
        }
    print(0.0, flush=True)
    with ThreadPoolExecutor(max(1, about["models"] - 1)) as pool:
        for name in lines():
            start = perf_counter()
            first, *others = decoders[name]
            beside = [pool.submit(decode, other, plan.tokens) for other in others]
            decode(first, plan.tokens)
            for other in beside:
                other.result()
            print(perf_counter() - start, flush=True)


def decode(decoder: Any, tokens: int) -> None:
    """Some tokens; inference mode is a thread's own."""
    import torch

    with torch.inference_mode():
        decoder.decode(tokens)


def lines() -> Iterator[str]:
    """What the parent asks for."""
    for line in sys.stdin:
        yield line.strip()


if __name__ == "__main__":
    main()
