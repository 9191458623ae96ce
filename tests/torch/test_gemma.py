"""Gemma 3 in the engine of this project: the logits that Transformers has."""

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch
from transformers import Gemma3ForCausalLM, Gemma3TextConfig

from tests.support.naive_llm import perplexity
from tilewright.golden.harmonia.llm_format import HarmoniaFormat
from tilewright.golden.llm.assemble import Tensors, assemble
from tilewright.golden.llm.engine import Session, logits
from tilewright.golden.llm.folder import GEMMA
from tilewright.golden.params.llm import LlmShape
from tilewright.studies.accuracy.checkpoints import transformers_model
from tilewright.torch import HarmoniaConfig, quantize_, restore_
from tilewright.torch.likelihood import token_losses

WINDOW, LAYERS = 8, 7  # six layers with a window, one without
TOKENS = np.random.default_rng(0).integers(0, 100, 96)


@pytest.fixture(scope="module")
def theirs():
    torch.manual_seed(0)
    config = Gemma3TextConfig(
        hidden_size=64,
        intermediate_size=96,
        num_hidden_layers=LAYERS,
        num_attention_heads=4,
        num_key_value_heads=1,
        head_dim=32,
        vocab_size=100,
        max_position_embeddings=256,
        sliding_window=WINDOW,
        query_pre_attn_scalar=32,
    )
    model = Gemma3ForCausalLM(config).eval()
    for parameter in model.parameters():
        torch.nn.init.normal_(parameter, 0, 0.3 if parameter.ndim == 1 else 0.15)
    return model


@pytest.fixture(scope="module")
def ours(theirs):
    shape = LlmShape(
        model_type="gemma3_text",
        num_hidden_layers=LAYERS,
        hidden_size=64,
        intermediate_size=96,
        num_attention_heads=4,
        num_key_value_heads=1,
        head_dim=32,
        vocab_size=100,
        max_position_embeddings=256,
        norm_eps=1e-6,
        rope_theta=1e6,
        sliding_window=WINDOW,
        sliding_layers=LAYERS - 1,
        layer_norms=4,
        query_norm="head",
    )
    readers = {
        name: (
            lambda rows, v=value, one=value.ndim == 1: v.detach().numpy()[rows] + np.float32(one)
        )
        for name, value in theirs.state_dict().items()
        if name != "lm_head.weight"
    }
    return assemble(shape, GEMMA, Tensors(Path("gemma"), readers), tied=True, tokenizer=None)


def test_logits_are_those_of_transformers(theirs, ours):
    with torch.no_grad():
        wanted = theirs(torch.from_numpy(TOKENS)[None]).logits[0].numpy()
    found = logits(ours, TOKENS)
    assert np.abs(found - wanted).max() < 1e-4 * np.abs(wanted).max()
    windows = [layer.gemma.window for layer in ours.layers]
    assert windows == [WINDOW] * 5 + [None, WINDOW]
    # A window matters: the same model that sees everything says something else.
    whole = tuple(replace(x, gemma=replace(x.gemma, window=None)) for x in ours.layers)
    other = logits(replace(ours, layers=whole), TOKENS)
    assert np.abs(other - wanted).max() > 1e-2 * np.abs(wanted).max()


def test_the_way_back_to_transformers(theirs, ours):
    made = transformers_model(ours)
    with torch.no_grad():
        wanted, found = (m(torch.from_numpy(TOKENS)[None]).logits for m in (theirs, made))
    assert torch.allclose(found, wanted, atol=1e-4)
    assert made.config.layer_types == theirs.config.layer_types


def test_decode_is_prefill(ours):
    session = Session(ours)
    parts = [session.feed(TOKENS[:30]), *(session.feed([token]) for token in TOKENS[30:50])]
    assert np.allclose(np.concatenate(parts), logits(ours, TOKENS[:50]), atol=1e-4)


def test_harmonia_is_that_of_the_modules(theirs, ours):
    """Both in Harmonia's format, windows of the model among those of the cache."""
    quantize_(theirs, HarmoniaConfig(weight_bits=None))
    try:
        losses, _ = token_losses(theirs, TOKENS)
    finally:
        restore_(theirs)
    wanted = float(losses.mean().exp())
    assert perplexity(ours, TOKENS, HarmoniaFormat(), window=96) == pytest.approx(wanted, rel=0.01)
