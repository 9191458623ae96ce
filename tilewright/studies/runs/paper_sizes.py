"""Programs on the emitted Verilog of the accelerators at the papers' sizes: a record.

A stream of weights and a projection of one token, from the channels of HBM2; a layer of SmolLM2's
shape as compiled: a token after a long context, tokens of a prompt, a batch of sequences. Memory
and counters are compared with golden's, and the cycles too where the memory is one that the cycle
model knows. All cases, or those whose names begin with one of the words:

    python -m tilewright.studies.runs.paper_sizes [NAME]...

makes them again; a case that is not asked for stays as it was.
"""

import sys
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tilewright.base.errors import CheckError
from tilewright.compiler.machine import machine_of
from tilewright.compiler.sizes import Step
from tilewright.golden.llm.tiny import tiny_model
from tilewright.golden.machine.moves import LATENCY  # of programs compared cycle for cycle
from tilewright.golden.params.llm import LlmShape
from tilewright.golden.params.resolve import resolve
from tilewright.studies.measured import load_measured, write_measured
from tilewright.verify.machine.model_workload import ModelWork
from tilewright.verify.machine.workload import gemm_of, stream_of_weights
from tilewright.verify.native import NativeMemory, run_as_golden

RECORD = "paper_sizes"
CLOCKS = {"harmonia": 300e6, "anda": 285e6}
# A channel of HBM2 brings 32 GB/s: of 128 bytes a cycle, 7 in 8 cycles at 285 MHz, 5 in 6 at 300.
HBM2 = {"anda": (7, 8), "harmonia": (5, 6)}
HBM2_SECONDS = 150e-9  # until its lines arrive
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
    """Cycles and time of a case on the Verilog."""

    name: str
    block: str
    latency: int  # of the memory, in cycles
    rate: tuple[int, int]  # channels bring lines in so many of so many cycles
    golden_cycles: int  # of a memory whose channels bring lines in all cycles
    counters: dict[str, int]  # cycles among them
    gigabytes_per_second: float  # read, at the block's clock


def run_case(name: str, case: Case, *, seed: int = 1) -> SizedRun:
    """Run a case; a difference from golden raises ``CheckError``."""
    params: Any = resolve(case.block)
    clock = CLOCKS[params.block]
    programs, memory = case.work(params, np.random.default_rng(seed))
    latency = round(clock * HBM2_SECONDS) if case.from_hbm2 else LATENCY
    rate = HBM2[params.block] if case.from_hbm2 else (1, 1)
    answers = NativeMemory(latency=latency, rate=rate)
    try:
        ran = run_as_golden(case.block, programs, memory, answers)
    except CheckError as problem:
        raise CheckError(f"{name}: {problem}") from None
    counters = {label: sum(x.counters[label] for x in ran) for label in ran[0].counters}
    seconds = counters["cycles"] / clock
    return SizedRun(
        name=name,
        block=case.block,
        latency=latency,
        rate=rate,
        golden_cycles=sum(x.golden_cycles for x in ran),
        counters=counters,
        gigabytes_per_second=round(counters["lines_read"] * params.line_bytes / seconds / 1e9, 1),
    )


def _stream(params: Any, rng: np.random.Generator) -> Work:
    program, lines = stream_of_weights(params)
    return [program], rng.integers(0, 256, lines * params.line_bytes, np.uint8)


def _projection(params: Any, rng: np.random.Generator) -> Work:
    latency = round(CLOCKS[params.block] * HBM2_SECONDS)
    options = {**PROJECTION, "mantissa": MANTISSA, "latency": latency, "from_memory": True}
    return gemm_of(params, rng, options)


def _layer(params: Any, rng: np.random.Generator, *, step: Step, shape: LlmShape) -> Work:
    """A step through one layer, after all earlier tokens of its sequences."""
    machine = machine_of(params)
    seen = dict(step.seen)
    work = ModelWork(
        machine,
        tiny_model(seed=int(rng.integers(1 << 30)), config=shape),
        context=max(seen.values()),
        sequences=len(seen),
    )
    for sequence, end in seen.items():
        own = sum(token.sequence == sequence for token in step.tokens)
        work.feed(sequence, end - own)
    case = work.step(step)
    return [case.line], case.memory


# A layer of SmolLM2-135M with random weights.
SMOLLM2 = LlmShape(
    model_type="llama",
    name="SmolLM2-135M",
    num_hidden_layers=1,
    hidden_size=576,
    intermediate_size=1536,
    num_attention_heads=9,
    num_key_value_heads=3,
    head_dim=64,
    vocab_size=1024,
    max_position_embeddings=8192,
)
LLAMA_2_7B = replace(
    SMOLLM2,
    name="Llama 2 7B",
    hidden_size=4096,
    intermediate_size=11008,
    num_attention_heads=32,
    num_key_value_heads=32,
    head_dim=128,
)
STEPS = {
    "a layer, a token at 1,024": (SMOLLM2, Step.prompt(1024, 1)),
    "a layer, 16 tokens of a prompt at 512": (SMOLLM2, Step.prompt(512, 16)),
    "a layer, a batch of 4 at 256, 100, 17 and 1": (
        SMOLLM2,
        Step.batch({0: 256, 1: 100, 2: 17, 3: 1}),
    ),
    "a layer of Llama 2 7B, a prompt of 16": (LLAMA_2_7B, Step.prompt(0, 16)),
    "a layer of Llama 2 7B, the token after it": (LLAMA_2_7B, Step.prompt(16, 1)),
}


def _cases() -> Iterator[tuple[str, Case]]:
    for name in CLOCKS:
        block = f"{name}:paper"
        yield f"{name}: a stream of weights", Case(block, _stream, from_hbm2=True)
        yield f"{name}: a projection of one token", Case(block, _projection, from_hbm2=True)
        for words, (shape, step) in STEPS.items():
            yield f"{name}: {words}", Case(block, partial(_layer, step=step, shape=shape))
    words = "a layer, 16 tokens of a prompt at 512"
    shape, step = STEPS[words]
    yield f"wide: {words}", Case("harmonia:wide", partial(_layer, step=step, shape=shape))


CASES = dict(_cases())


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
