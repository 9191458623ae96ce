"""The newest token into caches of any length, on the Harmonia accelerator."""

import numpy as np
import pytest

from tilewright.golden.harmonia.cache import KvCache
from tilewright.golden.harmonia_machine.append_token import append_token
from tilewright.golden.harmonia_machine.attention import heavy_tailed
from tilewright.golden.harmonia_machine.decode_attention import CachedHead
from tilewright.golden.harmonia_machine.executor import Machine
from tilewright.golden.harmonia_machine.layout import from_bytes
from tilewright.golden.harmonia_machine.streamed_attention import cached_units
from tilewright.golden.machine.stream import program_lines
from tilewright.golden.params.harmonia_machine import HarmoniaParams, Memory, Operand
from tilewright.golden.params.machine import Error

SMALL = HarmoniaParams.preset("small")
CHANNELS, PART = 16, 32


@pytest.mark.parametrize("tokens", [2, 8, 9, 17, 30, 33, 41, 48, 64, 65, 97, 130])
def test_caches_are_those_of_the_specification(tokens):
    """Of four heads; the token begins or fills units or parts, or lets others leave the window."""
    rng = np.random.default_rng(tokens)
    prompt = max(1, tokens - 4)
    heads, caches = [], []
    for _ in range(4):
        keys, values = (heavy_tailed(rng, tokens, CHANNELS) for _ in range(2))
        cache = KvCache(SMALL.cache, CHANNELS)
        cache.append(keys[:prompt], values[:prompt])
        for t in range(prompt, tokens - 1):
            cache.append(keys[t : t + 1], values[t : t + 1])
        queries = np.zeros((1, CHANNELS), np.uint16)
        heads.append(CachedHead.of(SMALL, cache, keys, values, queries, prompt))
        cache.append(keys[-1:], values[-1:])
        caches.append(cache)
    found = append_token(SMALL, tokens, heads, part=PART)
    memory = found.builder.memory
    line = len(memory) // SMALL.line_bytes
    content = np.concatenate([memory, program_lines(SMALL, found.builder.program)])
    assert Machine(SMALL, content).run_stream(line).error is Error.NONE
    for tensors, cache in zip(found.caches, caches, strict=True):
        both = (Operand.KEYS, Operand.VALUES)
        for operand, units in zip(both, cached_units(SMALL, cache), strict=True):
            assert_equal(content, tensors[operand], units, tokens)


def assert_equal(content, tensor, units, tokens):
    """All parts, and low halves of units in a window."""
    for kind, rows in (
        (Memory.OPERANDS, units.high),
        (Memory.OPERAND_SIGNS, units.signs),
        (Memory.OPERAND_EXPONENTS, units.exponents),
    ):
        for k, first in enumerate(range(0, len(rows), tensor.part_rows)):
            want = rows[first : first + tensor.part_rows]
            data = content[tensor.lines[kind][k] * SMALL.line_bytes :]
            assert np.array_equal(from_bytes(SMALL, kind, data, len(want)), want)
    for unit in range(-(-tokens // tensor.unit)):
        if SMALL.has_low(tensor.operand, unit, tokens):
            slot = SMALL.low_slot(tensor.operand, unit)
            line = tensor.low_lines + slot * SMALL.lines(Memory.OPERANDS, tensor.across)
            data = content[line * SMALL.line_bytes :]
            found = from_bytes(SMALL, Memory.OPERANDS, data, tensor.across)
            want = units.low[slot * tensor.across : (slot + 1) * tensor.across]
            assert np.array_equal(found, want)


def test_refused():
    head = CachedHead.empty(SMALL, 3, CHANNELS, 1)
    with pytest.raises(ValueError, match=r"^tokens must be at least 2, not 1$"):
        append_token(SMALL, 1, [head])
