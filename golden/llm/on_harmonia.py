"""Attention of a language model as programs of the Harmonia accelerator, head by head.

A head reads a prompt, then token after token; its share of the output projection follows. With
more tokens than the cache's windows have, keys and values of both precisions are part of it.
"""

import numpy as np
from numpy.typing import NDArray

from tilewright.golden.harmonia.attention import attend
from tilewright.golden.harmonia.cache import KvCache
from tilewright.golden.harmonia_machine.attention import AttentionProgram, attention_program
from tilewright.golden.llm.block import Attention
from tilewright.golden.params.block import require
from tilewright.golden.params.harmonia_machine import HarmoniaParams
from tilewright.golden.weights import Weights, quantise

Patterns = NDArray[np.uint16]


def prompt_tokens(tokens: int) -> int:
    """Tokens of the prompt: three quarters come at once, the others follow one by one."""
    return tokens - tokens // 4


def head_program(
    params: HarmoniaParams, attention: Attention, output: NDArray[np.float32], head: int
) -> AttentionProgram:
    """All tokens of ``attention``; ``output`` is the output projection, (width, heads * C)."""
    q, k, v = _operands(attention, head)
    weights = _share(output, head, q.shape[1])
    return attention_program(params, q, k, v, prompt=prompt_tokens(len(q)), weights=weights)


def head_results(params: HarmoniaParams, attention: Attention, head: int) -> Patterns:
    """The same head by ``tilewright.golden.harmonia``: fp16 patterns (tokens, C)."""
    q, k, v = _operands(attention, head)
    prompt = prompt_tokens(len(q))
    cache = KvCache(params.cache, q.shape[1])
    cache.append(k[:prompt], v[:prompt])
    results = [attend(params.numerics, cache, q[:prompt])]
    for t in range(prompt, len(q)):
        cache.append(k[t : t + 1], v[t : t + 1])
        results.append(attend(params.numerics, cache, q[t : t + 1]))
    return np.concatenate(results)


def _operands(attention: Attention, head: int) -> tuple[Patterns, Patterns, Patterns]:
    """Q, K, V of one query head."""
    heads = len(attention.q)
    require(0 <= head < heads, f"head must be 0..{heads - 1}, not {head!r}")
    shared = head * len(attention.k) // heads
    return attention.q[head], attention.k[shared], attention.v[shared]


def _share(output: NDArray[np.float32], head: int, channels: int) -> Weights:
    """What the output projection does to one head, as int4."""
    return quantise(output[:, head * channels : (head + 1) * channels], 4, group=channels)
