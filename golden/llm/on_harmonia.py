"""Attention of a language model as programs of the Harmonia accelerator, head by head.

A head reads a prompt that is longer than its windows, then token after token: caches of both
precisions and ageing are part of every program. Its share of the output projection follows.
"""

import numpy as np
from numpy.typing import NDArray

from golden.anda.weights import Weights, quantise
from golden.harmonia.attention import attend
from golden.harmonia.cache import KvCache
from golden.harmonia_system.attention import AttentionProgram, attention_program
from golden.llm.block import Attention
from golden.params.block import require
from golden.params.harmonia_system import HarmoniaParams

Patterns = NDArray[np.uint16]


def prompt_tokens(params: HarmoniaParams) -> int:
    """Of the prompt: the initial window, and the local one twice."""
    return params.initial + 2 * params.local


def all_tokens(params: HarmoniaParams) -> int:
    """A group and a half of tokens follow the prompt."""
    return prompt_tokens(params) + 3 * params.group // 2


def head_program(
    params: HarmoniaParams, attention: Attention, output: NDArray[np.float32], head: int
) -> AttentionProgram:
    """``output`` is the output projection, (width, heads * C)."""
    q, k, v = _operands(params, attention, head)
    return attention_program(
        params, q, k, v, prompt=prompt_tokens(params), weights=_share(output, head, q.shape[1])
    )


def head_results(params: HarmoniaParams, attention: Attention, head: int) -> Patterns:
    """The same head by ``golden.harmonia``: fp16 patterns (tokens, C)."""
    q, k, v = _operands(params, attention, head)
    prompt = prompt_tokens(params)
    cache = KvCache(params.cache, q.shape[1])
    cache.append(k[:prompt], v[:prompt])
    results = [attend(params.numerics, cache, q[:prompt])]
    for t in range(prompt, len(q)):
        cache.append(k[t : t + 1], v[t : t + 1])
        results.append(attend(params.numerics, cache, q[t : t + 1]))
    return np.concatenate(results)


def _operands(
    params: HarmoniaParams, attention: Attention, head: int
) -> tuple[Patterns, Patterns, Patterns]:
    """Q, K, V of one query head."""
    heads, tokens = attention.q.shape[:2]
    needed = all_tokens(params)
    require(0 <= head < heads, f"head must be 0..{heads - 1}, not {head!r}")
    require(tokens >= needed, f"the text has {tokens} tokens, fewer than the {needed} of a program")
    shared = head * len(attention.k) // heads
    return attention.q[head, :needed], attention.k[shared, :needed], attention.v[shared, :needed]


def _share(output: NDArray[np.float32], head: int, channels: int) -> Weights:
    """What the output projection does to one head, as int4."""
    return quantise(output[:, head * channels : (head + 1) * channels], 4, group=channels)
