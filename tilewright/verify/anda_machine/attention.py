"""Attention on the vector lanes: decoded tokens, heads that share a cache, prompts.

Memory and counters are golden's; without stalls, so is every cycle. Golden itself is held against
attention without a machine in the tests of the golden side.
"""

import time
from typing import Any

import cocotb
import numpy as np

from tilewright.golden.anda_machine.attention import Attention
from tilewright.golden.anda_machine.block import heavy_tailed
from tilewright.golden.anda_machine.prompt_attention import queries_in_banks
from tilewright.golden.params.anda_machine import AndaParams
from tilewright.verify import job
from tilewright.verify.machine.check import check_program
from tilewright.verify.streams import Harness

__all__ = ["attention_on_lanes"]


def _prompts(params: AndaParams) -> list[tuple[float, dict[str, int]]]:
    """Several blocks and parts of keys, where every bank has a query of its own."""
    if not queries_in_banks(params):
        return []
    tokens = 5 * params.rows - 1
    return [(0.0, {"heads": 2, "kv_heads": 1, "context": tokens, "tokens": tokens})]


@cocotb.test
async def attention_on_lanes(dut: Any) -> None:
    """A single token, heads with ragged contexts in several blocks, a prompt; programs stream."""
    asked, start = job.load(), time.perf_counter()
    params, clock = asked.params_as(AndaParams), Harness(dut)
    cases = [
        (0.0, {"heads": 1, "kv_heads": 1, "context": 1}),
        (0.0, {"heads": 6, "kv_heads": 3, "context": 20 * params.rows + 1}),
        (0.0, {"heads": 2, "kv_heads": 1, "context": params.rows + 3, "tokens": 3}),
        *_prompts(params),
        (asked.stalls[-1], {"heads": 2, "kv_heads": 2, "context": 3 * params.rows - 1}),
    ]
    for number, (stall, sizes) in enumerate(cases):
        seed = asked.seed + number
        rng, channels = np.random.default_rng(seed), 16 * params.vector.row_lanes
        work = Attention(params=params, head_dim=channels, **sizes)

        def values(heads: int, tokens: int, rng: Any = rng, channels: int = channels) -> Any:
            return heavy_tailed(rng, heads * tokens, channels).reshape(heads, tokens, channels)

        memory = work.memory(
            values(work.heads, work.tokens),
            values(work.kv_heads, work.context),
            values(work.kv_heads, work.context),
        )
        try:
            await check_program(
                clock, params, work.program(), memory, seed=seed, stall=stall, stream=True
            )
        except AssertionError as problem:
            raise AssertionError(f"{sizes}, stall {stall:g}: {problem}") from None
    job.report(cases=len(cases), cycles=clock.cycle, seconds=time.perf_counter() - start)
