"""Attention over caches that are longer than the memories of the Harmonia accelerator."""

import numpy as np
import pytest

from tilewright.golden.bits import decode
from tilewright.golden.harmonia.attention import attend
from tilewright.golden.harmonia.cache import KvCache
from tilewright.golden.harmonia.streamed_attention import attend_streamed
from tilewright.golden.harmonia_machine.attention import heavy_tailed
from tilewright.golden.harmonia_machine.executor import Machine
from tilewright.golden.harmonia_machine.streamed_attention import (
    streamed_attention,
    streamed_program,
)
from tilewright.golden.machine.stream import program_lines
from tilewright.golden.params.formats import FP16
from tilewright.golden.params.harmonia_machine import HarmoniaParams
from tilewright.golden.params.machine import Error

SMALL = HarmoniaParams.preset("small")


def filled(params, tokens, heads, channels=16):
    rng = np.random.default_rng(tokens)
    cache = KvCache(params.cache, channels)
    cache.append(heavy_tailed(rng, tokens, channels), heavy_tailed(rng, tokens, channels))
    return cache, heavy_tailed(rng, heads, channels)


def run(params, cache, queries, part, first=None):
    """From external memory, program and all."""
    program = streamed_attention(params, queries, cache, part=part, first=first)
    memory = program.builder.memory
    line = len(memory) // params.line_bytes
    content = np.concatenate([memory, program_lines(params, program.builder.program)])
    outcome = Machine(params, content).run_stream(line)
    assert outcome.error is Error.NONE
    return program.attended(content[: len(memory)])


@pytest.mark.parametrize("heads", [1, 2])
@pytest.mark.parametrize(("tokens", "part"), [(7, 16), (16, 16), (41, 8), (45, 16), (100, 24)])
def test_parts_are_those_of_the_specification(heads, tokens, part):
    """One part or many, ragged ones; windows in a part, across two, in all of them."""
    cache, queries = filled(SMALL, tokens, heads)
    want = attend_streamed(SMALL.numerics, cache, queries, part)
    assert np.array_equal(run(SMALL, cache, queries, part), want)


@pytest.mark.parametrize(
    ("tokens", "part", "first", "heads"),
    [(7, 16, 0, 2), (45, 16, 44, 1), (100, 24, 46, 2), (100, 24, 48, 2), (100, 16, 98, 2)],
)
def test_tiles_of_a_prompt_see_tokens_up_to_themselves(tokens, part, first, heads):
    cache, queries = filled(SMALL, tokens, heads)
    want = attend_streamed(SMALL.numerics, cache, queries, part, first)
    assert np.array_equal(run(SMALL, cache, queries, part, first), want)
    for k in range(heads):  # as each of them alone
        alone = attend_streamed(SMALL.numerics, cache, queries[k : k + 1], part, first + k)
        assert np.array_equal(want[k : k + 1], alone)


@pytest.mark.parametrize(("tokens", "first"), [(100, None), (1200, None), (1200, 600)])
def test_programs_of_zeros_are_those_of_values(tokens, first):
    cache, queries = filled(SMALL, tokens, 2)
    whole = streamed_attention(SMALL, queries, cache, first=first).builder.program
    assert [x.opcode for x in streamed_program(SMALL, 2, 16, tokens, first)] == [
        x.opcode for x in whole
    ]


def test_a_cache_larger_than_the_memories():
    """Keys alone would take three times the rows that there are."""
    params = HarmoniaParams.preset("small", operand_rows=144, halves_rows=64, activation_rows=32)
    cache, queries = filled(params, 800, 2)
    want = attend_streamed(params.numerics, cache, queries, 32)
    assert np.array_equal(run(params, cache, queries, 32), want)


def test_in_parts_as_at_once():
    """Within what fp16 loses by scaling, of results around 1."""
    cache, queries = filled(SMALL, 100, 1)
    parts = attend_streamed(SMALL.numerics, cache, queries, 16)
    whole = attend(SMALL.numerics, cache, queries)
    difference = np.abs(decode(FP16, parts) - decode(FP16, whole))
    assert difference.max() < 0.05 * np.abs(decode(FP16, whole)).max()


def test_refused_parts():
    cache, queries = filled(SMALL, 20, 2)
    with pytest.raises(ValueError, match=r"^part must be a multiple of 8, the group, not 12$"):
        streamed_attention(SMALL, queries, cache, part=12)
    with pytest.raises(ValueError, match=r"^parts of 80000 tokens need \d+ operand rows, there"):
        streamed_attention(SMALL, queries, cache, part=80000)
    with pytest.raises(ValueError, match=r"^heads must be 1\.\.2, not 3$"):
        streamed_attention(SMALL, np.zeros((3, 16), np.uint16), cache)
    message = r"^queries of tokens 19 and behind are no token tile of 20 tokens$"
    with pytest.raises(ValueError, match=message):
        streamed_attention(SMALL, queries, cache, first=19)
