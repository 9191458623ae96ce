"""A head of attention: a prompt, then token after token while the cache ages, then a layer.

Without stalls the program is compared cycle for cycle. The golden machine it is compared with is
held against attention without a machine in the tests of the golden side.
"""

import time
from typing import Any

import cocotb
import numpy as np

from tilewright.golden.harmonia.cache import KvCache
from tilewright.golden.harmonia_machine.attention import (
    EARLY_GROUPS,
    heavy_tailed,
    random_attention,
)
from tilewright.golden.harmonia_machine.decode_attention import CachedHead
from tilewright.golden.harmonia_machine.grouped_attention import grouped_attention
from tilewright.golden.harmonia_machine.layer_attention import layer_attention
from tilewright.golden.harmonia_machine.streamed_attention import streamed_attention
from tilewright.golden.params.harmonia_machine import Dataflow, HarmoniaParams
from tilewright.verify import job
from tilewright.verify.machine.check import check_program
from tilewright.verify.streams import Harness

__all__ = [
    "head_of_attention",
    "heads_over_a_long_cache",
    "heads_that_share_a_cache",
    "scores_below_those_of_no_key",
    "token_of_a_layer",
]


@cocotb.test
async def head_of_attention(dut: Any) -> None:
    """Old and recent tokens share a tile when the prompt ends; without and with stalls."""
    asked, start = job.load(), time.perf_counter()
    params, clock = asked.params_as(HarmoniaParams), Harness(dut)
    for stall, dataflow in zip(asked.stalls, Dataflow, strict=False):
        b = random_attention(params, asked.seed, more=1, dataflow=dataflow).builder
        await check_program(clock, params, b.program, b.memory, seed=asked.seed, stall=stall)
    job.report(cases=1, cycles=clock.cycle, seconds=time.perf_counter() - start)


@cocotb.test
async def heads_over_a_long_cache(dut: Any) -> None:
    """Three parts and a ragged one stream from memory, and so does the program."""
    asked, start = job.load(), time.perf_counter()
    params, clock = asked.params_as(HarmoniaParams), Harness(dut)
    rng, channels = np.random.default_rng(asked.seed), params.channels
    part = 2 * params.group
    tokens = 3 * part + 5
    cache = KvCache(params.cache, channels)
    cache.append(*(heavy_tailed(rng, tokens, channels) for _ in range(2)))
    queries = heavy_tailed(rng, params.rows, channels)
    b = streamed_attention(params, queries, cache, part=part).builder
    for stall in asked.stalls[:2]:
        await check_program(
            clock, params, b.program, b.memory, seed=asked.seed, stall=stall, stream=True
        )
    job.report(cases=1, cycles=clock.cycle, seconds=time.perf_counter() - start)


@cocotb.test
async def scores_below_those_of_no_key(dut: Any) -> None:
    """Every score is negative: 0, that of a column without a key, must not count as the largest."""
    asked, start = job.load(), time.perf_counter()
    params, clock = asked.params_as(HarmoniaParams), Harness(dut)
    rng, channels = np.random.default_rng(asked.seed), params.channels
    keys = heavy_tailed(rng, 3, channels) & 0x7FFF  # without signs
    cache = KvCache(params.cache, channels)
    cache.append(keys, heavy_tailed(rng, 3, channels))
    queries = np.full((params.rows, channels), 0xBC00, np.uint16)  # -1
    b = streamed_attention(params, queries, cache, part=2 * params.group).builder
    await check_program(clock, params, b.program, b.memory, seed=asked.seed, stall=0.0)
    job.report(cases=1, cycles=clock.cycle, seconds=time.perf_counter() - start)


@cocotb.test
async def heads_that_share_a_cache(dut: Any) -> None:
    """A prompt whose later groups of V are converted beside its products, then two tokens."""
    asked, start = job.load(), time.perf_counter()
    params, clock = asked.params_as(HarmoniaParams), Harness(dut)
    rng, channels = np.random.default_rng(asked.seed), params.channels
    prompt = (EARLY_GROUPS + 2) * params.group + 1
    k, v, *heads = (heavy_tailed(rng, prompt + 2, channels) for _ in range(2 + params.rows))
    b = grouped_attention(params, np.stack(heads), k, v, prompt=prompt).builder
    for stall in asked.stalls[:1]:
        await check_program(
            clock, params, b.program, b.memory, seed=asked.seed, stall=stall, stream=True
        )
    job.report(cases=1, cycles=clock.cycle, seconds=time.perf_counter() - start)


@cocotb.test
async def token_of_a_layer(dut: Any) -> None:
    """Two heads of two sequences, one in two parts: appended, spread over the rows, attended."""
    asked, start = job.load(), time.perf_counter()
    params, clock = asked.params_as(HarmoniaParams), Harness(dut)
    rng, channels = np.random.default_rng(asked.seed), params.channels
    part = 2 * params.group
    tokens = [part + 3, part - 2]
    heads = [[_head(params, rng, n, channels) for n in tokens] for _ in range(2)]
    b = layer_attention(params, tokens, heads, part=part).builder
    for stall in asked.stalls[:2]:
        await check_program(
            clock, params, b.program, b.memory, seed=asked.seed, stall=stall, stream=True
        )
    job.report(cases=1, cycles=clock.cycle, seconds=time.perf_counter() - start)


def _head(
    params: HarmoniaParams, rng: np.random.Generator, tokens: int, channels: int
) -> CachedHead:
    """What so many tokens have before the newest."""
    keys, values = (heavy_tailed(rng, tokens, channels) for _ in range(2))
    cache = KvCache(params.cache, channels)
    cache.append(keys[:-1], values[:-1])
    queries = heavy_tailed(rng, params.rows, channels)
    return CachedHead.of(params, cache, keys, values, queries, tokens - 1)
