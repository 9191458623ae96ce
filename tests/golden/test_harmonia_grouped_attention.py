"""Heads that share K and V on the Harmonia accelerator: their results and their time."""

import numpy as np
import pytest

from tilewright.golden.harmonia.attention import attend
from tilewright.golden.harmonia.cache import KvCache
from tilewright.golden.harmonia_machine.attention import heavy_tailed
from tilewright.golden.harmonia_machine.cycles import program_cycles
from tilewright.golden.harmonia_machine.executor import Machine
from tilewright.golden.harmonia_machine.grouped_attention import grouped_attention
from tilewright.golden.params.harmonia_machine import Counter, HarmoniaParams
from tilewright.golden.params.machine import Error

SMALL = HarmoniaParams.preset("small")


def tensors(heads, tokens, channels):
    rng = np.random.default_rng(heads + tokens)
    queries = np.stack([heavy_tailed(rng, tokens, channels) for _ in range(heads)])
    return queries, heavy_tailed(rng, tokens, channels), heavy_tailed(rng, tokens, channels)


def by_hand(params, queries, keys, values, prompt):
    """The same without a machine, each head by itself."""
    results = []
    for head in queries:
        cache = KvCache(params.cache, head.shape[1])
        cache.append(keys[:prompt], values[:prompt])
        found = [attend(params.numerics, cache, head[:prompt])]
        for t in range(prompt, len(head)):
            cache.append(keys[t : t + 1], values[t : t + 1])
            found.append(attend(params.numerics, cache, head[t : t + 1]))
        results.append(np.concatenate(found))
    return np.stack(results)


@pytest.mark.parametrize(
    ("heads", "prompt", "tokens"), [(1, 9, 12), (2, 37, 45), (2, 1, 20), (2, 70, 73)]
)
def test_every_head_is_that_of_a_head_alone(heads, prompt, tokens):
    q, k, v = tensors(heads, tokens, 16)
    program = grouped_attention(SMALL, q, k, v, prompt=prompt)
    memory = program.builder.memory
    outcome = Machine(SMALL, memory).run(program.builder.program)
    assert outcome.error is Error.NONE
    assert np.array_equal(program.attended(memory), by_hand(SMALL, q, k, v, prompt))


def test_decoded_heads_take_the_time_of_one():
    cycles = []
    for heads in (1, SMALL.rows):
        q, k, v = tensors(heads, 30, 16)
        runs = []
        for tokens in (20, 30):
            part = grouped_attention(SMALL, q[:, :tokens], k[:tokens], v[:tokens], prompt=20)
            outcome = Machine(SMALL, part.builder.memory).run(part.builder.program)
            runs.append(program_cycles(SMALL, outcome, 10)[Counter.CYCLES])
        cycles.append(runs[1] - runs[0])
    assert abs(cycles[1] - cycles[0]) <= 4 * 10  # a configure more or less a token


def test_refused_shapes():
    q, k, v = tensors(3, 8, 16)
    with pytest.raises(ValueError, match=r"^heads must be 1\.\.2, not 3$"):
        grouped_attention(SMALL, q, k, v, prompt=4)
    with pytest.raises(ValueError, match=r"^prompt must be 1\.\.8, the tokens, not 9$"):
        grouped_attention(SMALL, q[:2], k, v, prompt=9)
