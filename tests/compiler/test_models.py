"""Whole tiny models on golden machines: bits, parts of a cache, layers of any size."""

from dataclasses import replace

import numpy as np
import pytest

from tests.support.tiny_machine import TinyMachine, digest
from tilewright.compiler import plan, program
from tilewright.compiler.program import _fitting
from tilewright.compiler.sizes import Step
from tilewright.golden.llm.tiny import SHAPES, tiny_model

TOKENS = [int(t) for t in np.random.default_rng(1).integers(0, 128, 24)]
PROMPTS = "anda:small,rows=8,columns=2,activation_rows=2048,line_bytes=16"  # queries in banks
# Logits of the machines of version 0.2, whose compilers are no more.
DECODED = {"anda:small": "12d53bf724d75d84", "harmonia:small": "c0e42d751c8ac6c5"}
PROMPTED = "32b6c8118fa8ee88"  # by Harmonia


def error(got: dict, want: dict) -> float:
    """Largest root mean square error of any token's logits, over their spread."""
    return max(float(np.sqrt(np.mean((got[t] - want[t]) ** 2)) / want[t].std()) for t in want)


@pytest.mark.parametrize("target", DECODED)
def test_decoded_tokens_have_the_bits_of_version_0_2(target):
    assert digest(TinyMachine(target).decode(TOKENS[:8])) == DECODED[target]


@pytest.mark.parametrize("block", ["anda", "harmonia"])
def test_row_groups_change_no_bit(block, monkeypatch):
    """Weights in blocks of tiles serve tokens that are shared out, and prompts that are not.

    Parts of the vocabulary are searched in turns, the last ones alone.
    """
    monkeypatch.setattr(plan, "HEAD_PART", 48)
    targets = (f"{block}:small_decode{more}" for more in ("", ",row_groups=1"))
    shared, plain = (TinyMachine(target, sequences=2) for target in targets)
    assert digest(shared.feed(TOKENS[:11])) == digest(plain.feed(TOKENS[:11]))
    prompts = len(shared.cycles)
    assert digest(shared.decode(TOKENS[11:], 11)) == digest(plain.decode(TOKENS[11:], 11))
    pairs = [Step.batch({0: len(TOKENS), 1: 0}), Step.batch({0: len(TOKENS) + 1, 1: 1})]
    for step in pairs:
        assert digest(shared.step(step, [7, 8])) == digest(plain.step(step, [7, 8]))
    decoded = [sum(machine.cycles[prompts:]) for machine in (shared, plain)]
    assert decoded[0] < decoded[1]


def test_prompts_have_the_bits_of_version_0_2_and_parts_of_a_cache_differ_by_rounding_alone():
    whole = TinyMachine("harmonia:small").feed(TOKENS)
    assert digest(whole) == PROMPTED
    for part in (8, 16):
        parts = TinyMachine("harmonia:small", part=part).feed(TOKENS)
        assert 0 < error(parts, whole) < 0.1


def test_a_prompt_on_anda_differs_from_its_tokens_by_rounding_alone():
    prompt, tokens = TinyMachine(PROMPTS), TinyMachine(PROMPTS)
    assert 0 < error(prompt.feed(TOKENS), tokens.decode(TOKENS)) < 0.1
    assert sum(prompt.cycles) < sum(tokens.cycles) / 3
    after = (machine.decode([5], len(TOKENS)) for machine in (prompt, tokens))
    assert error(*after) < 0.1


@pytest.mark.parametrize("target", ["anda:small", "harmonia:small"])
def test_layers_larger_than_the_chip(target):
    """Tensors that do not fit are spilled; the same model on a larger chip has the same bits."""
    shape = replace(SHAPES["llama"], hidden_size=128, intermediate_size=384, num_hidden_layers=1)
    model = tiny_model(config=shape)
    name, few, many = {
        "anda:small": ("activation_rows", 704, 4096),
        "harmonia:small": ("halves_rows", 128, 2048),
    }[target]
    small, large = (TinyMachine(f"{target},{name}={n}", model, bits=4) for n in (few, many))
    step = Step.prompt(2, 1)
    assert _fitting(small.lines, step, [(0, 0)]).spill
    assert not _fitting(large.lines, step, [(0, 0)]).spill
    want, got = large.decode(TOKENS[:3]), small.decode(TOKENS[:3])
    assert error(got, want) < 0.05  # a norm's sum of squares is added piece by piece


@pytest.mark.parametrize("target", ["anda:small", "harmonia:small"])
def test_spilled_activations_change_no_bit(target, monkeypatch):
    """SiLU's results that are stored and loaded again, as for the widest feed-forward parts."""
    found = []
    for level in (2, 3):
        monkeypatch.setattr(program, "LEVELS", ((level, False),) * 3)
        found.append(TinyMachine(target).decode(TOKENS[:3]))
    assert all(np.array_equal(found[0][token], found[1][token]) for token in found[0])
