"""Programs on the emitted Verilog of the accelerators at the papers' sizes: a record.

A stream of weights and a projection of one token, from the channels of HBM2; on Harmonia a head of
attention with a prompt of 1,024 tokens, a token decoded by four heads over 4,096, a token tile that
streams such a cache, and a token that is appended to two caches and attends to them; on Anda a
token's heads over 1,024. Memory and counters are compared with golden's, and the cycles too where
the memory is one that the cycle model knows. All cases, or those whose names begin with one of the
words:

    python -m tilewright.studies.runs.paper_sizes [NAME]...

makes them again; a case that is not asked for stays as it was.
"""

import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tilewright.base.errors import CheckError
from tilewright.golden.anda_machine.attention import Attention
from tilewright.golden.harmonia.cache import KvCache
from tilewright.golden.harmonia_machine.attention import heavy_tailed
from tilewright.golden.harmonia_machine.decode_attention import CachedHead
from tilewright.golden.harmonia_machine.grouped_attention import grouped_attention
from tilewright.golden.harmonia_machine.layer_attention import layer_attention
from tilewright.golden.harmonia_machine.streamed_attention import streamed_attention
from tilewright.golden.machine.moves import LATENCY  # of programs compared cycle for cycle
from tilewright.golden.machine.stream import program_lines
from tilewright.golden.params.machine import Error
from tilewright.golden.params.resolve import resolve
from tilewright.studies.measured import load_measured, write_measured
from tilewright.verify.machine.accelerators import accelerator_of
from tilewright.verify.machine.weights import stream_of_weights
from tilewright.verify.machine.workload import gemm_of
from tilewright.verify.native import NativeMemory, build_native, run_native

__all__ = ["CASES", "RECORD", "Case", "SizedRun", "run_case"]

RECORD = "paper_sizes"
CLOCKS = {"anda": 285e6, "harmonia": 300e6}
# A channel of HBM2 brings 32 GB/s: of 128 bytes a cycle, 7 in 8 cycles at 285 MHz, 5 in 6 at 300.
HBM2 = {"anda": (7, 8), "harmonia": (5, 6)}
HBM2_SECONDS = 150e-9  # until its lines come
PROJECTION = {"tokens": 1, "inputs": 4096, "outputs": 1024}  # a slice of Llama-2-7B's
MANTISSA = 7  # bits of Anda's activations

Work = tuple[Sequence[Any], NDArray[np.uint8]]  # programs (a line: a stream), external memory


@dataclass(frozen=True)
class Case:
    """A program on one accelerator."""

    block: str
    work: Callable[[Any, np.random.Generator], Work]
    from_hbm2: bool = False  # with its rate and latency, which golden does not time


@dataclass(frozen=True)
class SizedRun:
    """What a case took on the Verilog."""

    name: str
    block: str
    latency: int  # of the memory, in cycles
    rate: tuple[int, int]  # channels bring lines in so many of so many cycles
    golden_cycles: int  # of a memory whose channels bring lines in all cycles
    counters: dict[str, int]  # cycles among them
    gigabytes_per_second: float  # read, at the block's clock


def run_case(name: str, case: Case, *, seed: int = 1) -> SizedRun:
    """Run a case; what is not as golden has it raises ``CheckError``."""
    params: Any = resolve(case.block)
    system, clock = accelerator_of(params), CLOCKS[params.block]
    programs, memory = case.work(params, np.random.default_rng(seed))
    latency = round(clock * HBM2_SECONDS) if case.from_hbm2 else LATENCY
    rate = HBM2[params.block] if case.from_hbm2 else (1, 1)
    wanted = memory.copy()
    machine = system.machine(params, wanted)
    expected: dict[str, int] = {}
    golden_cycles = 0
    for program in programs:
        streams = isinstance(program, int)
        outcome = machine.run_stream(program) if streams else machine.run(program)
        times = system.program_cycles(params, outcome, latency)
        golden_cycles += times[system.counter["CYCLES"]]
        for counter, value in (outcome.counts | ({} if case.from_hbm2 else times)).items():
            label = counter.name.lower()
            expected[label] = expected.get(label, 0) + value
    run = run_native(
        build_native(case.block), programs, memory, NativeMemory(latency=latency, rate=rate)
    )
    if any(ending.error is not Error.NONE for ending in run.endings):
        raise CheckError(f"{name}: {[ending.error.name for ending in run.endings]}")
    counters = {
        label: sum(ending.counters[label] for ending in run.endings)
        for label in run.endings[0].counters
    }
    if not np.array_equal(memory, wanted):
        raise CheckError(f"{name}: memory is not golden's")
    wrong = {k: (counters[k], value) for k, value in expected.items() if counters[k] != value}
    if wrong or counters["cycles"] < golden_cycles:
        raise CheckError(f"{name}: counters (got, expected) {wrong}, golden {golden_cycles} cycles")
    seconds = counters["cycles"] / clock
    return SizedRun(
        name=name,
        block=case.block,
        latency=latency,
        rate=rate,
        golden_cycles=golden_cycles,
        counters=counters,
        gigabytes_per_second=round(counters["lines_read"] * params.line_bytes / seconds / 1e9, 1),
    )


def _stream(params: Any, rng: np.random.Generator) -> Work:
    program, lines = stream_of_weights(params)
    return [program], rng.integers(0, 256, lines * params.line_bytes, np.uint8)


def _projection(params: Any, rng: np.random.Generator) -> Work:
    options: dict[str, Any] = {**PROJECTION, "from_memory": True}
    if params.block == "anda":
        options |= {"mantissa": MANTISSA, "result": MANTISSA, "weights_stay": True}
    return gemm_of(params, rng, options)


def _prompt(params: Any, rng: np.random.Generator, *, tokens: int) -> Work:
    k, v, q = (heavy_tailed(rng, tokens, params.channels) for _ in range(3))
    return _streamed(params, grouped_attention(params, q[None], k, v, prompt=tokens).builder)


def _token(params: Any, rng: np.random.Generator, *, tokens: int) -> Work:
    cache = KvCache(params.cache, params.channels)
    cache.append(*(heavy_tailed(rng, tokens, params.channels) for _ in range(2)))
    queries = heavy_tailed(rng, min(4, params.rows), params.channels)
    return _streamed(params, streamed_attention(params, queries, cache).builder)


def _tile(params: Any, rng: np.random.Generator, *, tokens: int) -> Work:
    """The last token tile of a prompt whose cache streams."""
    cache = KvCache(params.cache, params.channels)
    cache.append(*(heavy_tailed(rng, tokens, params.channels) for _ in range(2)))
    queries = heavy_tailed(rng, params.rows, params.channels)
    first = tokens - params.rows
    return _streamed(params, streamed_attention(params, queries, cache, first=first).builder)


def _layer(params: Any, rng: np.random.Generator, *, tokens: int) -> Work:
    """The newest token of four heads for each of two caches, which a prompt has filled."""
    heads = []
    for _ in range(2):
        keys, values = (heavy_tailed(rng, tokens, params.channels) for _ in range(2))
        cache = KvCache(params.cache, params.channels)
        cache.append(keys[:-1], values[:-1])
        queries = heavy_tailed(rng, min(4, params.rows), params.channels)
        heads.append([CachedHead.of(params, cache, keys, values, queries, tokens - 1)])
    return _streamed(params, layer_attention(params, [tokens], heads).builder)


def _heads(params: Any, rng: np.random.Generator, *, tokens: int, channels: int) -> Work:
    """A decoded token's heads on Anda: three of queries for each of two of keys."""
    work = Attention(params=params, heads=6, kv_heads=2, head_dim=channels, context=tokens)
    q, k, v = (
        heavy_tailed(rng, heads * count, channels).reshape(heads, count, channels)
        for heads, count in ((work.heads, 1), (work.kv_heads, tokens), (work.kv_heads, tokens))
    )
    return _resident(params, work.program(), work.memory(q, k, v))


def _streamed(params: Any, builder: Any) -> Work:
    return _resident(params, builder.program, builder.memory)


def _resident(params: Any, program: Sequence[Any], memory: NDArray[np.uint8]) -> Work:
    """The program behind its memory where it is too long for the instruction memory."""
    if len(program) <= params.instructions:
        return [program], memory
    line = len(memory) // params.line_bytes
    return [line], np.concatenate([memory, program_lines(params, program)])


CASES = {
    "harmonia: a stream of weights": Case("harmonia:paper", _stream, from_hbm2=True),
    "harmonia: a projection of one token": Case("harmonia:paper", _projection, from_hbm2=True),
    "harmonia: a token at 4,096, 4 heads": Case("harmonia:paper", partial(_token, tokens=4096)),
    "harmonia: a prompt of 1,024 tokens": Case("harmonia:paper", partial(_prompt, tokens=1024)),
    "harmonia: a streamed token tile at 4,096": Case("harmonia:paper", partial(_tile, tokens=4096)),
    "harmonia: a token of a layer at 4,096, 2 x 4 heads": Case(
        "harmonia:paper", partial(_layer, tokens=4096)
    ),
    "wide: a prompt of 1,024 tokens": Case("harmonia:wide", partial(_prompt, tokens=1024)),
    "anda: a stream of weights": Case("anda:paper", _stream, from_hbm2=True),
    "anda: a projection of one token": Case("anda:paper", _projection, from_hbm2=True),
    "anda: a token at 1,024, 2 x 3 heads": Case(
        "anda:paper", partial(_heads, tokens=1024, channels=128)
    ),
}


def main(words: Sequence[str]) -> None:
    before = load_measured(RECORD) or {"runs": []}
    runs = {run["name"]: run for run in before["runs"]}
    for name, case in CASES.items():
        if not words or name.startswith(tuple(words)):
            runs[name] = run_case(name, case)
            print(runs[name], flush=True)
    command = "python -m tilewright.studies.runs.paper_sizes"
    ordered = [runs[name] for name in CASES if name in runs]
    write_measured(RECORD, {"command": command, "runs": ordered})


if __name__ == "__main__":
    main(sys.argv[1:])
