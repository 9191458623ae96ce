"""One more token of all heads of a layer on Harmonia, over caches of any length."""

import numpy as np
import pytest

from tilewright.golden.harmonia.cache import KvCache
from tilewright.golden.harmonia.streamed_attention import attend_streamed
from tilewright.golden.harmonia_machine.attention import heavy_tailed
from tilewright.golden.harmonia_machine.decode_attention import CachedHead
from tilewright.golden.harmonia_machine.executor import Machine
from tilewright.golden.harmonia_machine.layer_attention import layer_attention
from tilewright.golden.harmonia_machine.layout import from_bytes
from tilewright.golden.harmonia_machine.streamed_attention import cached_units
from tilewright.golden.machine.stream import program_lines
from tilewright.golden.params.harmonia_machine import HarmoniaParams, Memory, Operand
from tilewright.golden.params.machine import Error

SMALL = HarmoniaParams.preset("small")
CHANNELS, PART = 16, 32


def head_of(rng, params, tokens, sharing, channels=CHANNELS):
    """A head before its newest token, and its cache with it."""
    prompt = max(1, tokens - 4)
    keys, values = (heavy_tailed(rng, tokens, channels) for _ in range(2))
    cache = KvCache(params.cache, channels)
    cache.append(keys[:prompt], values[:prompt])
    for t in range(prompt, tokens - 1):
        cache.append(keys[t : t + 1], values[t : t + 1])
    queries = heavy_tailed(rng, sharing, channels)
    head = CachedHead.of(params, cache, keys, values, queries, prompt)
    cache.append(keys[-1:], values[-1:])
    return head, cache


def check(params, tokens, heads, sharing, part):
    """Results and caches of a layer of so many heads of keys and values: the specification's."""
    rng = np.random.default_rng(sum(tokens) + sharing)
    made = [[head_of(rng, params, n, sharing) for n in tokens] for _ in range(heads)]
    found = layer_attention(params, tokens, [[head for head, _ in x] for x in made], part=part)
    memory = found.builder.memory
    line = len(memory) // params.line_bytes
    content = np.concatenate([memory, program_lines(params, found.builder.program)])
    assert Machine(params, content).run_stream(line).error is Error.NONE
    attended = found.attended(content)
    for k, sequences in enumerate(made):
        for s, (head, cache) in enumerate(sequences):
            want = attend_streamed(params.numerics, cache, head.queries, part)
            assert np.array_equal(attended[k, s], want)
            both = (Operand.KEYS, Operand.VALUES)
            for operand, units in zip(both, cached_units(params, cache), strict=True):
                assert_equal(params, content, found.caches[k][s][operand], units, tokens[s])


def assert_equal(params, content, tensor, units, tokens):
    """All parts, and low halves of units in a window."""
    for kind, rows in (
        (Memory.OPERANDS, units.high),
        (Memory.OPERAND_SIGNS, units.signs),
        (Memory.OPERAND_EXPONENTS, units.exponents),
    ):
        for k, first in enumerate(range(0, len(rows), tensor.part_rows)):
            want = rows[first : first + tensor.part_rows]
            data = content[tensor.lines[kind][k] * params.line_bytes :]
            assert np.array_equal(from_bytes(params, kind, data, len(want)), want)
    for unit in range(-(-tokens // tensor.unit)):
        if params.has_low(tensor.operand, unit, tokens):
            slot = params.low_slot(tensor.operand, unit)
            line = tensor.low_lines + slot * params.lines(Memory.OPERANDS, tensor.across)
            data = content[line * params.line_bytes :]
            found = from_bytes(params, Memory.OPERANDS, data, tensor.across)
            want = units.low[slot * tensor.across : (slot + 1) * tensor.across]
            assert np.array_equal(found, want)


@pytest.mark.parametrize("tokens", [2, 8, 9, 17, 30, 33, 41, 48, 64, 65, 97, 130])
def test_results_and_caches_are_those_of_the_specification(tokens):
    """The token begins or fills units or parts, or lets others leave the window."""
    check(SMALL, [tokens], heads=4, sharing=2, part=PART)


@pytest.mark.parametrize("sharing", [1, 3, 5])
def test_heads_fill_the_rows_or_take_their_turns(sharing):
    check(SMALL, [70], heads=2, sharing=sharing, part=PART)


def test_sequences_of_a_batch_have_any_lengths():
    """More than a token tile, and several that end in the same bank of their caches."""
    check(SMALL, [34, 101, 35, 33, 9], heads=2, sharing=2, part=PART)


def test_parts_of_one_group():
    check(SMALL, [45, 21], heads=2, sharing=2, part=SMALL.group)


def test_refused():
    head = CachedHead.empty(SMALL, 3, CHANNELS, 1)
    with pytest.raises(ValueError, match=r"^tokens must be at least 2, not 1$"):
        layer_attention(SMALL, [1], [[head]])
    with pytest.raises(ValueError, match=r"^part must be a multiple of 8, the group, not 12$"):
        layer_attention(SMALL, [4], [[head]], part=12)
    with pytest.raises(ValueError, match=r"^parts of 80000 tokens need \d+ operands rows, there"):
        layer_attention(SMALL, [4], [[head]], part=80000)
