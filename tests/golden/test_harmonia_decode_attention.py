"""One more token of many heads, each with a cache of its own, on the Harmonia accelerator."""

import numpy as np
import pytest

from tilewright.golden.harmonia.attention import attend
from tilewright.golden.harmonia.cache import KvCache
from tilewright.golden.harmonia_machine.attention import heavy_tailed
from tilewright.golden.harmonia_machine.decode_attention import CachedHead, decode_attention
from tilewright.golden.harmonia_machine.executor import Machine
from tilewright.golden.harmonia_machine.layout import from_bytes
from tilewright.golden.harmonia_machine.streamed_attention import cached_units
from tilewright.golden.machine.stream import program_lines
from tilewright.golden.params.harmonia_machine import HarmoniaParams, Memory
from tilewright.golden.params.machine import Error

SMALL = HarmoniaParams.preset("small")
CHANNELS = 16


def run(params, program):
    """From external memory, program and all."""
    memory = program.builder.memory
    line = len(memory) // params.line_bytes
    content = np.concatenate([memory, program_lines(params, program.builder.program)])
    outcome = Machine(params, content).run_stream(line)
    assert outcome.error is Error.NONE
    return content[: len(memory)]


@pytest.mark.parametrize("sharing", [1, 3])
@pytest.mark.parametrize(
    "tokens",
    [*((2,), (8,), (9,), (17,), (30,), (33,), (41,), (48,)), (3, 4), (34, 33), (41, 42), (48, 47)],
)
def test_results_and_caches_are_those_of_the_specification(tokens, sharing):
    """Of three heads; tokens begin or fill units, or let others leave the window."""
    rng = np.random.default_rng(sum(tokens))
    heads, want, caches = [], [], []
    for _ in range(3):
        heads.append([])
        want.append([])
        for count in tokens:
            prompt = max(1, min(tokens) - 3)
            keys, values = (heavy_tailed(rng, count, CHANNELS) for _ in range(2))
            queries = heavy_tailed(rng, sharing, CHANNELS)
            cache = KvCache(SMALL.cache, CHANNELS)
            cache.append(keys[:prompt], values[:prompt])
            for t in range(prompt, count - 1):
                cache.append(keys[t : t + 1], values[t : t + 1])
            heads[-1].append(CachedHead.of(SMALL, cache, keys, values, queries, prompt))
            cache.append(keys[-1:], values[-1:])
            want[-1].append([attend(SMALL.numerics, cache, q[np.newaxis])[0] for q in queries])
            caches.append(cache)
    program = decode_attention(SMALL, tokens, heads)
    memory = run(SMALL, program)
    assert np.array_equal(program.attended(memory), np.array(want).swapaxes(1, 2))
    stored = [lines for head in program.caches for lines in head]
    for lines, cache in zip(stored, caches, strict=True):
        for first, units in zip(
            (lines.keys, lines.values), cached_units(SMALL, cache), strict=True
        ):
            for kind, rows in (
                (Memory.OPERANDS, units.high),
                (Memory.OPERAND_SIGNS, units.signs),
                (Memory.OPERAND_EXPONENTS, units.exponents),
            ):
                data = memory[first[kind] * SMALL.line_bytes :]
                assert np.array_equal(from_bytes(SMALL, kind, data, len(rows)), rows)


def test_refused():
    head = [[CachedHead.empty(SMALL, 3, CHANNELS, 1)]]
    with pytest.raises(ValueError, match="heads of 90000 tokens need"):
        decode_attention(SMALL, [90_000], head)
    with pytest.raises(ValueError, match="channels must be a multiple of 8, at most 16, not 24"):
        decode_attention(SMALL, [4], [[CachedHead.empty(SMALL, 3, 24, 1)]])
    with pytest.raises(ValueError, match="sequences of 4, 5 tokens do not end in one token tile"):
        decode_attention(SMALL, [4, 5], head)
    with pytest.raises(ValueError, match="two sequences end in the same bank"):
        decode_attention(SMALL, [4, 4], head)
