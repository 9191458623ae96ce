"""A class with ``encode`` and ``decode`` in a model of PyTorch: conversion, recipe, perplexity."""

import re

import numpy as np
import pytest
import torch
from transformers import LlamaConfig

from tests.docs.pages import DOCS
from tests.support.examples import run_page
from tests.support.transformers_models import SHAPE, random_model
from tilewright.golden.formats import resolve_format
from tilewright.torch import (
    FormatConfig,
    ModuleError,
    Recipe,
    RecipeError,
    perplexity,
    quantize_,
    restore_,
)

GUIDE = DOCS / "how-to" / "your-format.md"
IDS = torch.arange(1, 91)[None] % 99
TERNARY = """import numpy as np
class Ternary:
    bits, scale_bits, group = 2, 16, 16
    def encode(self, values):
        groups = values.reshape(*values.shape[:-1], -1, self.group)
        scales = np.abs(groups).mean(-1).astype(np.float16)
        signs = np.sign(groups) * (np.abs(groups) > scales[..., None] / 2)
        return (signs + 1).astype(int).reshape(values.shape), scales.view(np.uint16)
    def decode(self, codes, scales):
        return (codes - 1.0) * np.repeat(scales.view(np.float16), self.group, axis=-1)
"""


class Sign:
    """The least that a format can be."""

    bits = 1

    def encode(self, values):
        return (values > 0).astype(int)

    def decode(self, codes):
        return 0.05 * (2.0 * codes - 1)


@pytest.fixture
def ternary(tmp_path, monkeypatch):
    (tmp_path / "ternary.py").write_text(TERNARY)
    monkeypatch.chdir(tmp_path)
    return "ternary.py:Ternary"


def made():
    return random_model(LlamaConfig(**SHAPE))


def logits(model):
    with torch.no_grad():
        return model(IDS).logits


def test_weights_are_what_the_class_decodes(ternary):
    model, other = made(), made()
    before = logits(model)
    quantize_(model, FormatConfig(ternary))
    form = resolve_format(ternary)
    assert form.bits_per_value == 3
    for name, module in other.named_modules():
        if isinstance(module, torch.nn.Linear) and "lm_head" not in name:
            values = form.through(module.weight.detach().numpy()).astype(np.float32)
            assert len(np.unique(values[0, :16])) <= 3
            module.weight.data = torch.from_numpy(values)
    assert torch.equal(logits(model), logits(other))
    restore_(model)
    assert torch.equal(logits(model), before)


def test_a_changed_weight_is_converted_again(ternary):
    model, other = made(), made()
    quantize_(model, FormatConfig(ternary))
    logits(model)
    for one in (model, other):
        with torch.no_grad():
            one.model.layers[0].mlp.up_proj.weight.mul_(-1)
    quantize_(other, FormatConfig(ternary))
    assert torch.equal(logits(model), logits(other))


def test_activations_and_a_class_itself():
    """A class of this module is named by it; groups that do not divide a width need padding."""
    model = made()
    recipe = quantize_(model, FormatConfig(Sign, "int8", pad=True))
    assert recipe.config.weights == f"{__name__}:Sign"
    assert torch.isfinite(logits(model)).all()
    baked = made()
    quantize_(baked, FormatConfig(Sign, "int8", pad=True), bake=True)
    assert torch.equal(logits(baked), logits(model))


def test_a_recipe_names_the_file_from_its_own_folder(ternary, tmp_path, monkeypatch):
    model, other = made(), made()
    (tmp_path / "recipes").mkdir()
    quantize_(model, FormatConfig(ternary)).save("recipes/mine.toml")
    assert '"../ternary.py:Ternary"' in (tmp_path / "recipes/mine.toml").read_text()
    monkeypatch.chdir("/")
    quantize_(other, Recipe.load(tmp_path / "recipes/mine.toml"))
    ids = np.arange(64) % 99
    assert perplexity(model, ids, 32) == perplexity(other, ids, 32)
    (tmp_path / "ternary.py").unlink()
    with pytest.raises(RecipeError, match=r"mine\.toml: .*there is no file"):
        Recipe.load(tmp_path / "recipes/mine.toml")


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (
            ("(signs + 1)", "(signs + 4)"),
            "Ternary must give codes that are whole numbers of 2 bits",
        ),
        ((".astype(int)", ""), "Ternary must give codes that are whole numbers of 2 bits"),
        ((", scales.view(np.uint16)", ", -scales.view(np.int16)"), "must give scales that"),
        (("* np.repeat(", "[..., :7] * np.repeat("), "operands could not be broadcast"),
    ],
)
def test_a_class_that_breaks_its_word_is_refused_before_anything_changes(
    ternary, tmp_path, change, message
):
    (tmp_path / "ternary.py").write_text(TERNARY.replace(*change))
    model = made()
    with pytest.raises(ModuleError, match=re.escape(message)):
        quantize_(model, FormatConfig(ternary))
    assert type(model.model.layers[0].mlp.up_proj) is torch.nn.Linear


def test_the_guide(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    run_page(GUIDE.read_text(), str(GUIDE), capsys)


def test_names_that_are_no_format():
    for name, message in (
        ("mxfp5", "unknown format 'mxfp5'; did you mean mxfp"),
        ("nothing.py:X", "there is no file 'nothing.py'"),
        ("tests.torch.test_own_format:Other", "has no class Other"),
        ("no_such_module:Other", "cannot be used: ModuleNotFoundError"),
    ):
        with pytest.raises(ValueError, match=re.escape(message)):
            FormatConfig(name)
