"""Recipes of compiled models: bits and groups, windows, offsets and learned factors.

A recipe is a file of ``tilewright.torch``: that of ``tilewright search --recipe``, or one that a
user writes. It names every module with its shape, so that it refuses a model that it is not for.
"""

import re
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np

from tilewright.base.errors import CommandError
from tilewright.compiler.compile import Options
from tilewright.compiler.folder import sha256
from tilewright.golden.harmonia.smoothing import with_scales
from tilewright.golden.llm.model import Model
from tilewright.golden.params.harmonia import ACTIVATION_BITS, OPERAND_BITS
from tilewright.golden.params.resolve import resolve
from tilewright.studies.runs.simulation import resolve_block
from tilewright.torch.config import AndaConfig, HarmoniaConfig
from tilewright.torch.recipe import Recipe

_LAYER = re.compile(r"layers\.(\d+)\.")
_PARTS = {
    **{"q_proj": "query", "k_proj": "key", "v_proj": "value", "o_proj": "output"},
    **{"gate_proj": "gate", "up_proj": "up", "down_proj": "down"},
}
_MANTISSAS = (ACTIVATION_BITS, OPERAND_BITS)  # of recent and of older keys and values


@dataclass(frozen=True)
class RecipeFile:
    """The recipe of a file, for ``Options.recipe``; it is read when a model is compiled."""

    path: Path

    @cached_property
    def digest(self) -> str:
        return sha256(self.path.read_bytes())

    def options(self, options: Options) -> Options:
        config = read_recipe(self.path, resolve(options.target).block).config
        assert isinstance(config, HarmoniaConfig | AndaConfig)
        params: Any = resolve_block(options.target, config.method, "compile")
        if config.group != params.group:
            raise CommandError(
                f"{self.path}: group is {config.group}; {params.slug} has {params.group}"
            )
        target, mantissas = options.target, None
        if isinstance(config, AndaConfig):
            mantissas = f"{config.qkv},{config.o},{config.u},{config.d}"
        else:
            wanted = {"initial": config.initial, "local": config.local}
            wanted["offsets"] = config.offset_channels
            changes = [f"{n}={v}" for n, v in wanted.items() if getattr(params, n) != v]
            target = ",".join([target, *changes])
        return replace(
            options,
            target=target,
            mantissas=mantissas,
            weight_bits=config.weight_bits or options.weight_bits,
            group=config.weight_group if config.weight_bits else options.group,
        )

    def model(self, model: Model) -> Model:
        return smoothed_model(model, Recipe.load(self.path), self.path)


def read_recipe(path: Path, block: str = "harmonia") -> Recipe:
    """The recipe of a file, refused where the accelerator ``block`` cannot follow it."""
    recipe = Recipe.load(path)
    config = recipe.config
    if config.method != block or not isinstance(config, HarmoniaConfig | AndaConfig):
        raise CommandError(
            f"{path} is a recipe of {config.method}; programs of {block.capitalize()} need one of"
            f" {block}"
        )
    checked: list[tuple[str, Any, Any]] = [("baked", recipe.baked, False)]
    if isinstance(config, HarmoniaConfig):
        checked += [
            ("activation_bits", config.activation_bits, ACTIVATION_BITS),
            ("key_bits", config.key_bits, _MANTISSAS),
            ("value_bits", config.value_bits, _MANTISSAS),
            ("attention_only", config.attention_only, False),
            ("site_bits", config.site_bits, None),
        ]
    for name, has, wanted in checked:
        if has != wanted:
            raise CommandError(f"{path}: {name} is {has}; the accelerator has {wanted}")
    if config.weight_bits not in (None, 4, 8):
        raise CommandError(f"{path}: weights have 4 or 8 bits, not {config.weight_bits}")
    return recipe


def smoothed_model(model: Model, recipe: Recipe, path: Path) -> Model:
    """The model with a recipe's factors of K in its projections, if it is the recipe's model."""
    _check_modules(model, recipe, path)
    if not recipe.smoothing:
        return model
    c = model.config
    shape = (c.num_key_value_heads, c.head_dim)
    scales = [np.ones(shape, np.float32) for _ in model.layers]
    for name, rows in recipe.smoothing.items():
        number = _layer(name, model, path)
        factors = np.array(rows, np.float32)
        if factors.shape != shape:
            raise CommandError(f"{path}: factors of {name} are {factors.shape}, not {shape}")
        if not (np.isfinite(factors).all() and (factors > 0).all()):
            raise CommandError(f"{path}: factors of {name} must be above 0 and finite")
        scales[number] = factors
    folded = with_scales(model, scales)
    return replace(folded, name=model.name)


def _check_modules(model: Model, recipe: Recipe, path: Path) -> None:
    for name, (_, outputs, inputs) in recipe.modules.items():
        part = _PARTS.get(name.rpartition(".")[2])
        if part is None:
            continue  # attention itself, or the head
        linear = model.layers[_layer(name, model, path)].linears.get(part)
        shape = None if linear is None else linear.weight.shape
        if shape != (outputs, inputs):
            raise CommandError(
                f"{path}: {name} is {outputs} by {inputs}; {model.name} has {shape}: the recipe is"
                " for another model"
            )


def _layer(name: str, model: Model, path: Path) -> int:
    found = _LAYER.search(name)
    number = int(found[1]) if found else len(model.layers)
    if number >= len(model.layers):
        raise CommandError(f"{path}: {name} is no module of {model.name}")
    return number
