"""A head of attention: a prompt, then token after token while the cache ages, then a layer.

Without stalls the program is compared cycle for cycle; the golden machine it is compared with is
held against attention without any machine in the tests of the golden side.
"""

import time
from typing import Any

import cocotb
import numpy as np

from golden.anda.weights import quantise
from golden.harmonia_system.attention import AttentionProgram, attention_program
from golden.params.harmonia_system import Dataflow, HarmoniaParams
from tilewright.bench import job
from tilewright.bench.harmonia_system.workload import heavy_tailed
from tilewright.bench.program.check import check_program
from tilewright.bench.streams import Bench

__all__ = ["head_of_attention"]


def head_program(
    params: HarmoniaParams, seed: int, prompt: int, decoded: int, dataflow: Dataflow
) -> AttentionProgram:
    """Random Q, K, V of all the channels that the accelerator knows."""
    rng = np.random.default_rng(seed)
    tokens, channels = prompt + decoded, params.channels
    q, k, v = (heavy_tailed(rng, tokens, channels) for _ in range(3))
    weights = quantise(rng.standard_normal((2 * params.columns + 2, channels)), 4, group=channels)
    return attention_program(
        params, q, k, v, prompt=prompt, weights=weights, dataflow=dataflow, keep=2
    )


@cocotb.test
async def head_of_attention(dut: Any) -> None:
    """A prompt of one and a half windows, then a group of tokens and more, ragged."""
    asked, start = job.load(), time.perf_counter()
    params, clock = asked.params, Bench(dut)
    window = params.initial + params.local
    prompt, decoded = 3 * window // 2 + 1, params.group + params.columns // 2
    program = head_program(params, asked.seed, prompt, decoded, Dataflow.ROW_MAJOR)
    b = program.builder
    for stall in asked.stalls[:2]:
        await check_program(clock, params, b.program, b.memory, seed=asked.seed, stall=stall)
    job.report(cases=1, cycles=clock.cycle, seconds=time.perf_counter() - start)
