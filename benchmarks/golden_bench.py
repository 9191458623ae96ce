"""Speed and memory of the golden models beside their peers: one run, the same data.

    python -m benchmarks.golden_bench [--json] [--rows N] [--seconds S]

Contestants of a race take turns, so that a busy moment of the machine hits all of them; the best
time of each counts. A peer that is not installed is left out with a line that says so.
"""

import argparse
import json
import os
import sys
import time
import tracemalloc
from collections.abc import Callable
from dataclasses import asdict, dataclass, field

import ml_dtypes
import numpy as np
from numpy.typing import NDArray

from tilewright.golden import bfp, planes
from tilewright.golden.arith import add, convert, fma, multiply
from tilewright.golden.params.formats import BF16, FP16, FP32, BlockFormat
from tilewright.golden.vectors import operands

COLUMNS = 4096
BLOCK = BlockFormat(group=64, mantissa_bits=8)

Contestant = Callable[[], object]


@dataclass
class Race:
    """Golden against its peers on one task over ``elements`` values."""

    task: str
    elements: int
    golden: float  # seconds, best round
    peers: dict[str, float]
    targets: dict[str, float]  # golden may take at most this multiple of the peer's time
    missing: dict[str, str] = field(default_factory=dict)

    def verdict(self, peer: str) -> bool:
        return self.golden <= self.targets[peer] * self.peers[peer]


@dataclass
class Memory:
    """Peak of what a call allocates, results included, as a multiple of its input."""

    task: str
    ratio: float
    limit: float = 4.0

    @property
    def verdict(self) -> bool:
        return self.ratio < self.limit


def best_times(contestants: dict[str, Contestant], seconds: float) -> dict[str, float]:
    """Rounds until ``seconds`` have passed, at least two: short tasks need many for a good best."""
    times: dict[str, list[float]] = {name: [] for name in contestants}
    end = time.perf_counter() + seconds
    while time.perf_counter() < end or len(next(iter(times.values()))) < 2:
        for name, run in contestants.items():
            start = time.perf_counter()
            run()
            times[name].append(time.perf_counter() - start)
    return {name: min(laps) for name, laps in times.items()}


def peak_ratio(run: Contestant, input_bytes: int) -> float:
    tracemalloc.start()
    run()
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    return peak / input_bytes


def torchao_cast(values: NDArray[np.float32]) -> Contestant:
    """MXFP8 of the same values and the same group; torchao takes bf16, not fp16."""
    import torch
    from torchao.prototype.mx_formats.mx_tensor import to_mx

    tensor = torch.from_numpy(values).bfloat16()
    return lambda: to_mx(tensor, torch.float8_e4m3fn, BLOCK.group)


def microxcaling_cast(values: NDArray[np.float32]) -> Contestant:
    """MX int8 of the same values and the same group."""
    import torch
    from mx.mx_ops import quantize_mx_op
    from mx.specs import get_default_mx_specs

    tensor = torch.from_numpy(values).half()
    specs = get_default_mx_specs()
    return lambda: quantize_mx_op(
        tensor, specs, elem_format="int8", block_size=BLOCK.group, axes=[-1]
    )


def installed(
    builders: dict[str, Callable[[NDArray[np.float32]], Contestant]], values: NDArray[np.float32]
) -> tuple[dict[str, Contestant], dict[str, str]]:
    """The contestants that can be had, and why the others cannot."""
    contestants, missing = {}, {}
    for name, build in builders.items():
        try:
            contestants[name] = build(values)
        except ImportError as reason:
            missing[name] = str(reason)
    return contestants, missing


def measure(rows: int, seconds: float) -> tuple[list[Race], list[Memory]]:
    rng = np.random.default_rng(1)
    values = rng.standard_normal((rows, COLUMNS)).astype(np.float32)
    halves = values.astype(np.float16).view(np.uint16)
    words = values.view(np.uint32)

    def encode() -> bfp.Blocks:
        return bfp.encode(BLOCK, halves)

    def cast() -> NDArray:
        return convert(FP32, BF16, words)

    peers, missing = installed(
        {"torchao MXFP8": torchao_cast, "microxcaling int8": microxcaling_cast}, values
    )
    times = best_times({"golden": encode, **peers}, seconds)
    races = [
        Race(
            task=f"block floating point encode, {rows}x{COLUMNS} fp16 to {BLOCK}",
            elements=halves.size,
            golden=times.pop("golden"),
            peers=times,
            targets={"torchao MXFP8": 1.0, "microxcaling int8": 1 / 3},
            missing=missing,
        )
    ]
    times = best_times(
        {"golden": cast, "ml_dtypes": lambda: values.astype(ml_dtypes.bfloat16)}, seconds
    )
    races.append(
        Race(
            task=f"bf16 cast, {rows}x{COLUMNS} fp32",
            elements=values.size,
            golden=times.pop("golden"),
            peers=times,
            targets={"ml_dtypes": 2.0},
        )
    )
    blocks = encode()
    a, b, c = operands([FP32] * 3, rng, min(values.size, 1 << 20))
    h, g = operands([FP16] * 2, rng, len(a))
    alone: dict[str, tuple[int, Contestant]] = {
        "block floating point decode": (halves.size, lambda: bfp.decode(BLOCK, blocks)),
        "bit planes pack": (halves.size, lambda: planes.pack(BLOCK, blocks)),
        "fp16 multiply": (len(a), lambda: multiply(FP16, FP16, FP16, h, g)),
        "fp16 add": (len(a), lambda: add(FP16, FP16, FP16, h, g)),
        "fp32 fused multiply-add": (len(a), lambda: fma(FP32, FP32, FP32, FP32, a, b, c)),
    }
    for task, (elements, run) in alone.items():
        best = best_times({"golden": run}, seconds / 4)["golden"]
        races.append(Race(task=task, elements=elements, golden=best, peers={}, targets={}))
    memory = [
        Memory("block floating point encode", peak_ratio(encode, halves.nbytes)),
        Memory("bf16 cast", peak_ratio(cast, words.nbytes)),
    ]
    return races, memory


def table(races: list[Race], memory: list[Memory]) -> str:
    lines = [f"{os.cpu_count()} cores, numpy {np.__version__}, best of the rounds", ""]
    for race in races:
        rate = race.elements / race.golden / 1e6
        lines.append(f"{race.task}: {race.golden * 1e3:.1f} ms, {rate:.0f} million values/s")
        for peer, seconds in race.peers.items():
            ratio, target = race.golden / seconds, race.targets[peer]
            verdict = "met" if race.verdict(peer) else "MISSED"
            lines.append(
                f"    {peer}: {seconds * 1e3:.1f} ms; golden takes {ratio:.2f} of that, "
                f"target at most {target:.2f}: {verdict}"
            )
        for peer, reason in race.missing.items():
            lines.append(f"    {peer}: skipped, not installed ({reason})")
    lines.append("")
    for entry in memory:
        verdict = "met" if entry.verdict else "MISSED"
        lines.append(
            f"peak memory of {entry.task}: {entry.ratio:.2f} of its input, "
            f"target below {entry.limit:.0f}: {verdict}"
        )
    return "\n".join(lines)


def main(arguments: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="golden_bench", description=__doc__.splitlines()[0])
    parser.add_argument("--json", action="store_true", help="print the figures as JSON")
    parser.add_argument("--rows", type=int, default=4096, help="rows of the input (4096)")
    parser.add_argument("--seconds", type=float, default=8, help="length of a race (8)")
    options = parser.parse_args(arguments)
    races, memory = measure(options.rows, options.seconds)
    if options.json:
        record = {"races": [asdict(r) for r in races], "memory": [asdict(m) for m in memory]}
        print(json.dumps(record, indent=2))
    else:
        print(table(races, memory))
    met = all(r.verdict(peer) for r in races for peer in r.peers) and all(m.verdict for m in memory)
    return 0 if met else 1


if __name__ == "__main__":
    sys.exit(main())
